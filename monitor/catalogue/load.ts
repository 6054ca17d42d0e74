/**
 * A catalogue, whole or not at all (spec 8.1).
 *
 *     catalogue.yaml, or every *.yaml of a folder ──┐
 *     optout.yaml beside them ──────────────────────┴─► bytes ─► SHA-256 ── as before ──► same
 *                                                                  └──► parse, check each, check all ──► loaded, or bad
 *
 * All files are one catalogue: a mistake in one keeps the whole of the old one. Reads and parses, so it belongs into a
 * job (load-job.ts): 5,000 sites are about 1 s of parsing.
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
  entries: CatalogueEntry[] // by slug; those that opted out are not among them
  optOut: Set<string> // host suffixes
  optedOutSlugs: string[]
}

export type LoadResult =
  | { kind: 'same' }
  | { kind: 'loaded'; catalogue: Catalogue }
  | { kind: 'bad'; sha256: string | null; diagnostics: string[]; optOut: Set<string> } // the hosts it could make out

export interface LoadOptions {
  path: string // a file or a folder
  knownSha256?: string | null // of the last load, good or bad
  probePorts?: number[]
  hadOptOut?: boolean // a list of them was there at the last load: that it is gone is a mistake
}

export interface SourceFile {
  path: string
  name: string // as complaints say it
  text: string
}

export function loadCatalogue({
  path,
  knownSha256 = null,
  probePorts = DEFAULT_PORTS,
  hadOptOut = false,
}: LoadOptions): LoadResult {
  const complaints = new Diagnostics()
  const { files, optOut } = readFiles(path, complaints, hadOptOut)
  const isRead = complaints.isEmpty
  const sha256 = isRead ? hashFiles(optOut ? [...files, optOut] : files) : null
  if (isRead && sha256 === knownSha256) return { kind: 'same' }
  const hosts = readOptOut(optOut?.name ?? OPT_OUT_NAME, optOut?.text ?? null, complaints)
  const { entries } = isRead ? checkFiles(files, complaints, probePorts) : { entries: [] }
  if (sha256 === null || !complaints.isEmpty)
    return { kind: 'bad', sha256, diagnostics: complaints.lines(), optOut: hosts }
  entries.sort((a, b) => (a.slug < b.slug ? -1 : 1))
  return { kind: 'loaded', catalogue: { sha256, ...withOptOut(entries, hosts) } }
}

/** Without the sites that have opted out. */
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
  complaints: Diagnostics,
  probePorts = DEFAULT_PORTS,
): { entries: CatalogueEntry[]; documents: YamlFile[] } {
  const documents = files.map(({ name, text }) => readYaml(name, text, complaints))
  const placed: Placed[] = []
  for (const raw of documents.flatMap(({ sites }) => sites)) {
    const entry = parseEntry(raw, complaints)
    if (entry) placed.push({ raw, entry })
  }
  checkTogether(placed, complaints, probePorts)
  return { entries: placed.map(({ entry }) => entry), documents }
}

/** The catalogue's files in the order of their names, and the opt-out list if there is one; where there was one, it must be. */
export function readFiles(
  path: string,
  complaints: Diagnostics,
  hadOptOut = false,
): { files: SourceFile[]; optOut: SourceFile | null } {
  const complain = (file: string, code: string, what: string, fix: string) =>
    complaints.add(fileDiagnostic(file, code, what, fix))
  let paths: string[] = []
  try {
    paths = listCatalogueFiles(path)
  } catch (error) {
    complain(
      path,
      'CATALOGUE_MISSING',
      `cannot be read: ${(error as Error).message}.`,
      'Create it, or set CATALOGUE_PATH.',
    )
  }
  if (paths.length === 0 && complaints.isEmpty)
    complain(
      path,
      'CATALOGUE_EMPTY',
      'has no *.yaml file.',
      'Is a volume not mounted? No sites are written `sites: []`.',
    )
  if (paths.length > FILES_MAX)
    complain(path, 'FILES_TOO_MANY', `has ${paths.length} files.`, `Keep at most ${FILES_MAX}.`)
  let bytesLeft = FILE_BYTES_MAX
  const read = (file: string, isOptOut: boolean): SourceFile | null => {
    try {
      const stat = statSync(file)
      if (!stat.isFile()) throw new Error('it is no file') // reading a pipe would wait for ever
      if (!isOptOut) bytesLeft -= stat.size
      if (bytesLeft < 0 || stat.size > FILE_BYTES_MAX) {
        complain(file, 'FILE_TOO_LARGE', 'is too much.', `Keep at most ${FILE_BYTES_MAX} bytes in all.`)
        return null
      }
      const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
      return { path: file, name: basename(file), text }
    } catch (error) {
      if (isOptOut && !hadOptOut && (error as NodeJS.ErrnoException).code === 'ENOENT') return null
      complain(
        file,
        'FILE_UNREADABLE',
        `cannot be read: ${(error as Error).message}.`,
        isOptOut
          ? 'Put it back: an empty list, `hosts: []`, takes opt-outs back.'
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

/** What paths in the catalogue begin at, and where the opt-outs lie. */
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
