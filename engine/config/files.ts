/**
 * The rule files of a directory tree (spec 8.4).
 *
 *     RUNTIME_ROOT / RUNTIME_SUBDIRECTORY       watch root on: the key is the path from here, only `config.…` is read
 *       config/                                 watch root off: the path from RUNTIME_APPDIRECTORY, everything is read
 *         basic.yaml      ──► config.basic.yaml     basic.yaml
 *         team/shop.yaml  ──► config.team.shop.yaml team.shop.yaml
 *         link.yaml -> …  ──► read                  read
 *         old -> …/       ──► not entered, warning  (a linked directory could form a loop)
 *         lost+found/     ──► not entered, warning  (created by the file system, readable by root only)
 *
 * Differs from envoyproxy/ratelimit: an empty RUNTIME_SUBDIRECTORY is the root itself, and directories that cannot hold a
 * rule file are not listed, so a root of `/` costs one listing. Synchronous: it runs in a job thread or a command.
 */
import { type Dirent, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX } from './bounds.ts'
import { ConfigError } from './error.ts'

export interface RuleTree {
  root: string // RUNTIME_ROOT
  subdirectory: string // RUNTIME_SUBDIRECTORY
  appDirectory: string // RUNTIME_APPDIRECTORY
  isDotIgnored: boolean // RUNTIME_IGNOREDOTFILES
  isRootWatched: boolean // RUNTIME_WATCH_ROOT
}

export interface RuleFile {
  name: string // starts every error text (spec 1.8)
  bytes: Uint8Array
}

export interface FilesRead {
  files: RuleFile[] // sorted by name
  warnings: string[]
  failuresCount: number // entries that could not be read: `runtime.load_failures`
  unreadable: { path: string; error: ConfigError } | null // the first whose rules are missing: the load must fail
}

/** Whether the name is that of a rule file. Other files are read too, but skipped when they hold no rules (Q7). */
export function isRuleName(name: string): boolean {
  return name.endsWith('.yaml') || name.endsWith('.yml')
}

const BACKUP_ENDINGS = ['~', '.bak', '.orig', '.rej', '.swp', '.tmp', '.rpmsave', '.rpmnew']
const BACKUPS_NAMED_MAX = 100 // in the warnings of one load; the rest is reported as a count
const LOST_AND_FOUND = 'lost+found' // of ext file systems; a volume mounted as the rules folder has one

/**
 * Whether no load reads the file at the path. For a path that no longer exists the name decides, so the removal of a
 * directory with such a name goes unnoticed until the next change.
 */
export function isBackupFile(path: string): boolean {
  if (!isBackupName(basename(path))) return false
  try {
    return !lstatSync(path).isDirectory()
  } catch {
    return true
  }
}

/** Whether editors, patch, rpm or dpkg use such names for the files they leave behind. */
function isBackupName(name: string): boolean {
  if (BACKUP_ENDINGS.some((ending) => name.endsWith(ending)) || name.includes('.dpkg-')) return true
  return name.startsWith('.#') || (name.length > 1 && name.startsWith('#') && name.endsWith('#'))
}

export function backupWarning(name: string): string {
  return `skipped a backup or editor file: ${name}`
}

/** Reads the tree. Throws a ConfigError when a bound is exceeded; for unreadable entries see FilesRead. */
export function readRuleFiles(tree: RuleTree): FilesRead {
  const found = find(tree)
  const { read } = found
  warnOfBackups(found)
  let bytesLeft = FILES_BYTES_MAX
  for (const [path, name] of [...found.paths].sort(byName)) {
    const bytes = readFile(read, path, name)
    if (!bytes) continue
    bytesLeft -= bytes.length
    if (bytesLeft < 0)
      throw new ConfigError(name, `the files together have more than ${FILES_BYTES_MAX} bytes`)
    read.files.push({ name, bytes })
  }
  return read
}

/** The paths of all directories and files that readRuleFiles reads. Throws as it does. */
export function findRuleFiles(tree: RuleTree): string[] {
  const found = find(tree)
  return [...found.directories, ...found.paths.keys()]
}

export interface RuleFileList {
  paths: string[] // in the order of reading
  backups: string[] // paths
  unreadable: ConfigError | null // as in FilesRead, of directories
}

/** What a reading would open and skip. Throws as reading does. */
export function listRuleFiles(tree: RuleTree): RuleFileList {
  const { paths, backups, read } = find(tree)
  const inOrder = (files: Map<string, string>) => [...files].sort(byName).map(([path]) => path)
  return { paths: inOrder(paths), backups: inOrder(backups), unreadable: read.unreadable?.error ?? null }
}

/**
 * Paths to watch besides the directory of rules: the directories below it, and its links, because a change of a link's target
 * causes no event in the directory of the link. Incomplete for a tree with too many files, which no load accepts.
 */
export function findWatchedPaths({ root, subdirectory, appDirectory, isDotIgnored }: RuleTree): string[] {
  const found = newFound('', isDotIgnored)
  try {
    list(found, join(root, subdirectory, appDirectory), '')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
  return [...found.directories.slice(1), ...found.links]
}

interface Found {
  directories: string[]
  paths: Map<string, string> // of files, path -> name
  links: string[] // those of `paths` that are links
  backups: Map<string, string> // as `paths`
  read: FilesRead
  prefix: string // of the names of rule files
  isDotIgnored: boolean
}

function newFound(prefix: string, isDotIgnored: boolean): Found {
  const read: FilesRead = { files: [], warnings: [], failuresCount: 0, unreadable: null }
  return { directories: [], paths: new Map(), links: [], backups: new Map(), read, prefix, isDotIgnored }
}

function find(tree: RuleTree): Found {
  const { isRootWatched, appDirectory, isDotIgnored } = tree
  const found = newFound(isRootWatched ? `${appDirectory}.` : '', isDotIgnored)
  const isNil = isRootWatched ? tree.root === '' : appDirectory === ''
  if (isNil) found.read.warnings.push('no runtime configuration. using nil loader.')
  else list(found, join(tree.root, tree.subdirectory, isRootWatched ? '' : appDirectory), '')
  return found
}

function list(found: Found, directory: string, namePrefix: string): void {
  found.directories.push(directory)
  for (const entry of listEntries(found, directory, namePrefix)) {
    if (found.isDotIgnored && entry.name.startsWith('.')) continue
    const name = namePrefix + entry.name
    const path = join(directory, entry.name)
    if (entry.isDirectory()) {
      listBelow(found, path, name)
    } else if (name.startsWith(found.prefix)) {
      if (isBackupName(entry.name)) found.backups.set(path, name)
      else if (found.paths.size >= FILES_MAX) throw new ConfigError(name, `more than ${FILES_MAX} files`)
      else {
        found.paths.set(path, name)
        if (entry.isSymbolicLink()) found.links.push(path)
      }
    }
  }
}

function listBelow(found: Found, directory: string, name: string): void {
  const namePrefix = `${name}.`
  if (!namePrefix.startsWith(found.prefix) && !found.prefix.startsWith(namePrefix)) return
  if (basename(directory) !== LOST_AND_FOUND) list(found, directory, namePrefix)
  else found.read.warnings.push(`skipped a directory of the file system: ${name}`)
}

/** A missing directory has no entries: the tree is empty, or the directory was just removed. */
function listEntries({ read }: Found, directory: string, namePrefix: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true })
  } catch (error) {
    if (isCode(error, 'ENOENT')) fail(read, directory, error)
    else refuse(read, directory, namePrefix.slice(0, -1) || directory, error)
    return []
  }
}

function warnOfBackups({ backups, read }: Found): void {
  const names = [...backups.values()].sort()
  for (const name of names.slice(0, BACKUPS_NAMED_MAX)) read.warnings.push(backupWarning(name))
  const unnamedCount = names.length - BACKUPS_NAMED_MAX
  if (unnamedCount > 0) read.warnings.push(`skipped ${unnamedCount} more backup or editor files`)
}

/** By name, then by path: `a/b.yaml` and `a.b.yaml` have one name. */
function byName([pathA, nameA]: [string, string], [pathB, nameB]: [string, string]): number {
  if (nameA !== nameB) return nameA < nameB ? -1 : 1
  return pathA < pathB ? -1 : 1
}

/** Null for an entry that holds no rules or cannot be read. */
function readFile(read: FilesRead, path: string, name: string): Uint8Array | null {
  try {
    const stat = statSync(path) // before opening: opening a pipe without a writer would block
    if (stat.isFile() && stat.size <= FILE_BYTES_MAX) return readFileSync(path)
    const size = `file has ${stat.size} bytes, at most ${FILE_BYTES_MAX} are read`
    if (stat.isFile() && isRuleName(name)) throw new ConfigError(name, `error loading config file: ${size}`)
    fail(read, path, stat.isFile() ? size : stat.isDirectory() ? 'is a directory' : 'is not a file')
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const isRemoved = isCode(error, 'ENOENT') && !lstatSync(path, { throwIfNoEntry: false })
    if (isRemoved) fail(read, path, error)
    else refuse(read, path, name, error)
  }
  return null
}

function fail(read: FilesRead, path: string, error: unknown): void {
  read.failuresCount++
  read.warnings.push(`runtime: error reading ${path}: ${error instanceof Error ? error.message : error}`)
}

/** Rules are missing, so the load must fail. The first such entry is the load's error, the others are warnings. */
function refuse(read: FilesRead, path: string, name: string, error: unknown): void {
  if (read.unreadable) {
    fail(read, path, error)
    return
  }
  read.failuresCount++
  const { code, message } = error as NodeJS.ErrnoException
  const text = `cannot be read: ${message}. ${REMEDIES[code ?? ''] ?? 'Repair it'}, or remove it.`
  read.unreadable = { path, error: new ConfigError(name, text) }
}

const REMEDIES: Record<string, string> = {
  EACCES: 'Make it readable for the user of the service',
  EPERM: 'Make it readable for the user of the service',
  ENOENT: 'Point the link at a file',
  ELOOP: 'Point the link at a file',
  ENOTDIR: 'Put a directory there',
}

function isCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException).code === code
}
