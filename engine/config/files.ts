/**
 * The rule files of a directory tree (spec 8.4).
 *
 *     RUNTIME_ROOT / RUNTIME_SUBDIRECTORY       watch root on: the key is the path from here, only `config.…` is read
 *       config/                                 watch root off: the path from RUNTIME_APPDIRECTORY, everything is read
 *         basic.yaml      ──► config.basic.yaml     basic.yaml
 *         team/shop.yaml  ──► config.team.shop.yaml team.shop.yaml
 *         link.yaml -> …  ──► read                  read
 *         old -> …/       ──► not entered, warning  (a linked directory could lead in circles)
 *
 * Differs from the reference: an empty RUNTIME_SUBDIRECTORY is the root itself; a part of the tree that cannot hold a
 * file of ours is not looked at, so a root of `/` costs one listing.
 * Synchronous: it runs in a job thread or a command, and there it is the shortest way.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
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
  name: string // opens every error text (spec 1.8)
  bytes: Uint8Array
}

export interface FilesRead {
  files: RuleFile[] // sorted by name
  warnings: string[]
  failuresCount: number // entries that could not be read: `runtime.load_failures`
}

/** Whether a file is meant as rules. Others may be rules too, but are skipped when they are not (Q7). */
export function isRuleName(name: string): boolean {
  return name.endsWith('.yaml') || name.endsWith('.yml')
}

/** Reads the tree. An unreadable entry is a warning; throws a ConfigError where a bound is passed. */
export function readRuleFiles(tree: RuleTree): FilesRead {
  const found = find(tree)
  const { read } = found
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

/** The paths of all that a reading depends on: directories and files. Throws as reading does. */
export function findRuleFiles(tree: RuleTree): string[] {
  const found = find(tree)
  return [...found.directories, ...found.paths.keys()]
}

interface Found {
  directories: string[]
  paths: Map<string, string> // of files, path -> name
  read: FilesRead
  prefix: string // names that do not open with it are not ours
  isDotIgnored: boolean
}

function find(tree: RuleTree): Found {
  const { isRootWatched, appDirectory, isDotIgnored } = tree
  const read: FilesRead = { files: [], warnings: [], failuresCount: 0 }
  const prefix = isRootWatched ? `${appDirectory}.` : ''
  const found: Found = { directories: [], paths: new Map(), read, prefix, isDotIgnored }
  const isNil = isRootWatched ? tree.root === '' : appDirectory === ''
  if (isNil) read.warnings.push('no runtime configuration. using nil loader.')
  else list(found, join(tree.root, tree.subdirectory, isRootWatched ? '' : appDirectory), '')
  return found
}

function list(found: Found, directory: string, namePrefix: string): void {
  found.directories.push(directory)
  let entries: import('node:fs').Dirent[]
  try {
    entries = readdirSync(directory, { withFileTypes: true })
  } catch (error) {
    fail(found.read, directory, error)
    return
  }
  for (const entry of entries) {
    if (found.isDotIgnored && entry.name.startsWith('.')) continue
    const name = namePrefix + entry.name
    const path = join(directory, entry.name)
    if (entry.isDirectory()) {
      const below = `${name}.`
      if (below.startsWith(found.prefix) || found.prefix.startsWith(below)) list(found, path, below)
    } else if (name.startsWith(found.prefix)) {
      if (found.paths.size >= FILES_MAX) throw new ConfigError(name, `more than ${FILES_MAX} files`)
      found.paths.set(path, name)
    }
  }
}

/** By name, then by path: `a/b.yaml` and `a.b.yaml` have one name. */
function byName([pathA, nameA]: [string, string], [pathB, nameB]: [string, string]): number {
  if (nameA !== nameB) return nameA < nameB ? -1 : 1
  return pathA < pathB ? -1 : 1
}

function readFile(read: FilesRead, path: string, name: string): Uint8Array | null {
  try {
    const stat = statSync(path) // before opening: to open a pipe that nobody writes to would wait for ever
    if (!stat.isFile()) throw new Error(stat.isDirectory() ? 'is a directory' : 'is not a file')
    if (stat.size <= FILE_BYTES_MAX) return readFileSync(path)
    const text = `file has ${stat.size} bytes, at most ${FILE_BYTES_MAX} are read`
    if (isRuleName(name)) throw new ConfigError(name, `error loading config file: ${text}`)
    throw new Error(text)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    fail(read, path, error)
    return null
  }
}

function fail(read: FilesRead, path: string, error: unknown): void {
  read.failuresCount++
  read.warnings.push(`runtime: error reading ${path}: ${error instanceof Error ? error.message : error}`)
}
