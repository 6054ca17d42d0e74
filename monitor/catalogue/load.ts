/**
 * Loads a catalogue as a whole or not at all (spec 8.1).
 *
 *     catalogue.yaml, or every *.yaml of a folder ──┐
 *     optout.yaml beside them ──────────────────────┴─► bytes ─► SHA-256 ── unchanged ──► same
 *                                                                  └──► parse, check each, check all ──► loaded, or bad
 *
 * All files form one catalogue: an error in one keeps the old catalogue. Parsing 5,000 sites takes about 1 s, so it runs in a
 * job (load-job.ts).
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { hasSuffix } from '../egress/url-policy.ts'
import { checkTogether, DEFAULT_PORTS, type Placed } from './check.ts'
import { type CatalogueEntry, type Diagnostic, Diagnostics } from './entry.ts'
import { parseEntry } from './fields.ts'
import { readOptOut } from './opt-out.ts'
import { FILE_BYTES_MAX, readYaml, type YamlFile } from './yaml.ts'

export const OPT_OUT_NAME = 'optout.yaml'
const FILES_MAX = 1_000

export interface Catalogue {
  sha256: string
  entries: CatalogueEntry[] // by slug, without those that opted out
  optOut: Set<string> // host suffixes
  optedOutSlugs: string[]
}

export type LoadResult =
  | { kind: 'same' }
  | { kind: 'loaded'; catalogue: Catalogue }
  | { kind: 'bad'; sha256: string | null; diagnostics: string[]; optOut: Set<string> } // the valid hosts

export interface LoadOptions {
  path: string // a file or a folder
  knownSha256?: string | null // of the last load, good or bad
  probePorts?: number[]
  hadOptOut?: boolean // the last load had opt-outs: a missing file is an error then
}

export interface SourceFile {
  path: string
  name: string // as in diagnostics
  text: string
}

export function loadCatalogue({
  path,
  knownSha256 = null,
  probePorts = DEFAULT_PORTS,
  hadOptOut = false,
}: LoadOptions): LoadResult {
  const diagnostics = new Diagnostics()
  const { files, optOut } = readFiles(path, diagnostics, hadOptOut)
  const isRead = diagnostics.isEmpty
  const sha256 = isRead ? hashFiles(optOut ? [...files, optOut] : files) : null
  if (isRead && sha256 === knownSha256) return { kind: 'same' }
  const hosts = readOptOut(optOut?.name ?? OPT_OUT_NAME, optOut?.text ?? null, diagnostics)
  const { entries } = isRead ? checkFiles(files, diagnostics, probePorts) : { entries: [] }
  if (sha256 === null || !diagnostics.isEmpty)
    return { kind: 'bad', sha256, diagnostics: diagnostics.lines(), optOut: hosts }
  entries.sort((a, b) => (a.slug < b.slug ? -1 : 1))
  return { kind: 'loaded', catalogue: { sha256, ...withOptOut(entries, hosts) } }
}

/** Removes the sites that have opted out. */
export function withOptOut(
  all: readonly CatalogueEntry[],
  optOut: Set<string>,
): Pick<Catalogue, 'entries' | 'optOut' | 'optedOutSlugs'> {
  const optedOut = new Set(all.filter((entry) => isOptedOut(entry, optOut)))
  return {
    entries: all.filter((entry) => !optedOut.has(entry)),
    optOut,
    optedOutSlugs: [...optedOut].map(({ slug }) => slug),
  }
}

/** Parses and checks all files as one catalogue. */
export function checkFiles(
  files: readonly SourceFile[],
  diagnostics: Diagnostics,
  probePorts = DEFAULT_PORTS,
): { entries: CatalogueEntry[]; documents: YamlFile[] } {
  const documents = files.map(({ name, text }) => readYaml(name, text, diagnostics))
  const placed: Placed[] = []
  for (const raw of documents.flatMap(({ sites }) => sites)) {
    const entry = parseEntry(raw, diagnostics)
    if (entry) placed.push({ raw, entry })
  }
  checkTogether(placed, diagnostics, probePorts)
  return { entries: placed.map(({ entry }) => entry), documents }
}

/** Reads the catalogue's files by name, and the opt-out list if there is one; with `hadOptOut` it must exist. */
export function readFiles(
  path: string,
  diagnostics: Diagnostics,
  hadOptOut = false,
): { files: SourceFile[]; optOut: SourceFile | null } {
  const addDiagnostic = (file: string, code: string, what: string, fix: string) =>
    diagnostics.add(fileDiagnostic(file, code, what, fix))
  let paths: string[] = []
  try {
    paths = listCatalogueFiles(path)
  } catch (error) {
    addDiagnostic(
      path,
      'CATALOGUE_MISSING',
      `cannot be read: ${(error as Error).message}.`,
      'Create it, or set CATALOGUE_PATH.',
    )
  }
  if (paths.length === 0 && diagnostics.isEmpty)
    addDiagnostic(
      path,
      'CATALOGUE_EMPTY',
      'has no *.yaml file.',
      'Check that the volume is mounted. For no sites write `sites: []`.',
    )
  if (paths.length > FILES_MAX)
    addDiagnostic(path, 'FILES_TOO_MANY', `has ${paths.length} files.`, `Keep at most ${FILES_MAX}.`)
  let bytesLeft = FILE_BYTES_MAX
  const read = (file: string, isOptOut: boolean): SourceFile | null => {
    try {
      const stat = statSync(file)
      if (!stat.isFile()) throw new Error('not a file') // reading a pipe would not end
      if (!isOptOut) bytesLeft -= stat.size
      if (bytesLeft < 0 || stat.size > FILE_BYTES_MAX) {
        addDiagnostic(file, 'FILE_TOO_LARGE', 'is too large.', `Keep at most ${FILE_BYTES_MAX} bytes in all.`)
        return null
      }
      const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
      return { path: file, name: basename(file), text }
    } catch (error) {
      if (isOptOut && !hadOptOut && (error as NodeJS.ErrnoException).code === 'ENOENT') return null
      addDiagnostic(
        file,
        'FILE_UNREADABLE',
        `cannot be read: ${(error as Error).message}.`,
        isOptOut
          ? 'Restore it; to remove all opt-outs write an empty list, `hosts: []`.'
          : 'It must be a file of UTF-8 text.',
      )
      return null
    }
  }
  const files = paths
    .slice(0, FILES_MAX)
    .map((file) => read(file, false))
    .filter((file) => file !== null)
  return { files, optOut: read(optOutPath(path), true) }
}

export function optOutPath(cataloguePath: string): string {
  return join(getCatalogueFolder(cataloguePath), OPT_OUT_NAME)
}

/** The folder that paths in the catalogue are relative to, and that holds the opt-outs. */
export function getCatalogueFolder(cataloguePath: string): string {
  const isFolder = statSync(cataloguePath, { throwIfNoEntry: false })?.isDirectory() ?? false
  return isFolder ? cataloguePath : dirname(cataloguePath)
}

export function listCatalogueFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const names = readdirSync(path).filter((name) => name.endsWith('.yaml') && name !== OPT_OUT_NAME)
  return names.sort().map((name) => join(path, name))
}

export function isOptedOut({ url, apiBase }: CatalogueEntry, hosts: ReadonlySet<string>): boolean {
  if (hosts.size === 0) return false
  return [url, apiBase].some((text) => hasSuffix(new URL(text).hostname, hosts))
}

function hashFiles(files: readonly SourceFile[]): string {
  const hash = createHash('sha256')
  for (const { name, text } of files) hash.update(`${name}\0${text.length}\0${text}`)
  return hash.digest('hex')
}

function fileDiagnostic(file: string, code: string, what: string, fix: string): Diagnostic {
  return { file, line: 0, site: null, code, what, fix }
}
