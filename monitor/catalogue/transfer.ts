/**
 * Import and export of catalogues (spec 8.1).
 *
 *     csv, json, yaml ──► entries ──► plan: added, changed, unchanged ──► edited text of the catalogue ──► all checks
 *                                                             no errors, no dry run ──► files replaced, one by one
 *
 * An import adds sites and changes the keys it names of known ones; it removes nothing. Comments and order of the files are
 * kept. In a folder a new site goes to imported.yaml, a known one stays in its file. Unless `areKeyFilesAllowed`, an import
 * can neither select a local file to be sent as a key nor change where a key is sent.
 */
import { existsSync, statSync } from 'node:fs'
import { extname, join } from 'node:path'
import { isMap, isSeq, parseDocument, stringify, type YAMLMap } from 'yaml'
import { readCsv, writeCsv } from './csv.ts'
import { type CatalogueEntry, type Diagnostic, Diagnostics, type RawSite } from './entry.ts'
import { FIELDS, parseEntry, toRaw } from './fields.ts'
import { checkFiles, readFiles, type SourceFile } from './load.ts'
import { writeAtomic } from './write-atomic.ts'
import { FILE_BYTES_MAX, readYaml } from './yaml.ts'

export type Format = 'csv' | 'json' | 'yaml'

const EMPTY = 'version: 1\nsites: []\n'
const IMPORTED = 'imported.yaml'

export interface ImportPlan {
  added: string[]
  changed: { slug: string; keys: string[] }[]
  unchanged: string[]
  keys: KeyRoute[] // new and changed ones
  diagnostics: string[] // if there are any, nothing was written
  writtenFiles: string[] // paths; in a dry run those that would be written
}

/** A key file, and the address its key is sent to. */
export interface KeyRoute {
  slug: string
  keyFile: string
  apiBase: string
}

export interface ImportOptions {
  cataloguePath: string // need not exist yet if it is a file
  name: string // of the imported file, as in diagnostics
  text: string
  format: Format
  isDryRun: boolean
  areKeyFilesAllowed?: boolean
  probePorts?: number[]
}

export function importSites(options: ImportOptions): ImportPlan {
  const { cataloguePath, name, text, format, isDryRun, areKeyFilesAllowed = false, probePorts } = options
  const plan: ImportPlan = {
    added: [],
    changed: [],
    unchanged: [],
    keys: [],
    diagnostics: [],
    writtenFiles: [],
  }
  const diagnostics = new Diagnostics()
  const incoming = readIncoming(name, text, format, diagnostics)
  const files = existsSync(cataloguePath) ? readFiles(cataloguePath, diagnostics).files : []
  if (diagnostics.isEmpty) checkFiles(files, diagnostics, probePorts) // its errors must be corrected first
  if (!diagnostics.isEmpty) return { ...plan, diagnostics: diagnostics.lines() }

  const editors = files.map((file) => new FileEditor(file))
  const known = new Map(editors.flatMap(({ slugs }) => [...slugs]).map(([slug, { entry }]) => [slug, entry]))
  const target = findTargetFile(cataloguePath, editors)
  for (const { raw, entry } of incoming) {
    const editor = editors.find(({ slugs }) => slugs.has(entry.slug))
    if (editor) record(plan, entry.slug, editor.change(raw, entry))
    else {
      target.add(entry)
      plan.added.push(entry.slug)
    }
  }
  const all = editors.includes(target) || !target.isChanged ? editors : [...editors, target]
  const { entries } = checkFiles(
    all.map((editor) => editor.result),
    diagnostics,
    probePorts,
  )
  plan.keys = entries.filter((entry) => isKeyRouteNew(entry, known.get(entry.slug))).map(toKeyRoute)
  if (!areKeyFilesAllowed) for (const route of plan.keys) diagnostics.add(toKeyRefusal(route, incoming))
  if (!diagnostics.isEmpty) return { ...plan, diagnostics: diagnostics.lines() }
  const changed = all.filter(({ isChanged }) => isChanged).map(({ result }) => result)
  if (!isDryRun) for (const file of changed) writeAtomic(file.path, file.text)
  return { ...plan, writtenFiles: changed.map(({ path }) => path) }
}

export function exportSites(entries: readonly CatalogueEntry[], format: Format): string {
  if (format === 'csv') return writeCsv(entries)
  const catalogue = { version: 1, sites: entries.map(toRaw) }
  return format === 'json'
    ? `${JSON.stringify(catalogue, null, 2)}\n`
    : stringify(catalogue, { lineWidth: 0 })
}

/** By the extension of a file; null when it is not supported. */
export function detectFormat(path: string): Format | null {
  const ending = extname(path).slice(1).toLowerCase()
  if (ending === 'yml') return 'yaml'
  return ending === 'csv' || ending === 'json' || ending === 'yaml' ? ending : null
}

interface Incoming {
  raw: RawSite
  entry: CatalogueEntry
}

function readIncoming(name: string, text: string, format: Format, diagnostics: Diagnostics): Incoming[] {
  if (Buffer.byteLength(text) > FILE_BYTES_MAX) {
    const fix = `Keep at most ${FILE_BYTES_MAX} bytes; import the rest with a second file.`
    diagnostics.add({ file: name, line: 0, site: null, code: 'FILE_TOO_LARGE', what: 'is too large.', fix })
    return []
  }
  const raws =
    format === 'csv' ? readCsv(name, text, diagnostics) : readYaml(name, text, diagnostics, true).sites
  const seen = new Map<string, number>()
  return raws.flatMap((raw) => {
    const entry = parseEntry(raw, diagnostics)
    if (!entry) return []
    const line = seen.get(entry.slug)
    if (line !== undefined) {
      const what = `slug ${JSON.stringify(entry.slug)} is in line ${line} already.`
      diagnostics.add({
        file: name,
        line: raw.line,
        site: entry.slug,
        code: 'NAME_TAKEN',
        what,
        fix: 'Keep one of them.',
      })
    }
    seen.set(entry.slug, raw.line)
    return [{ raw, entry }]
  })
}

function isKeyRouteNew({ keyFile, apiBase }: CatalogueEntry, before: CatalogueEntry | undefined): boolean {
  return keyFile !== null && (keyFile !== before?.keyFile || apiBase !== before.apiBase)
}

function toKeyRoute({ slug, keyFile, apiBase }: CatalogueEntry): KeyRoute {
  return { slug, keyFile: keyFile!, apiBase }
}

function toKeyRefusal({ slug, keyFile, apiBase }: KeyRoute, incoming: readonly Incoming[]): Diagnostic {
  const { file, line } = incoming.find(({ entry }) => entry.slug === slug)!.raw
  const what = `the key in ${keyFile} would be sent to ${apiBase}.`
  const fix =
    'If this is intended, import with --allow-key-files; else change key_file or the address of this site.'
  return { file, line, site: slug, code: 'KEY_FILE_REFUSED', what, fix }
}

function record(plan: ImportPlan, slug: string, keys: string[]): void {
  if (keys.length > 0) plan.changed.push({ slug, keys })
  else plan.unchanged.push(slug)
}

/** The file for new sites. */
function findTargetFile(path: string, editors: FileEditor[]): FileEditor {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  const file = isFolder ? join(path, IMPORTED) : path
  return (
    editors.find(({ result }) => result.path === file) ??
    new FileEditor({ path: file, name: file, text: EMPTY })
  )
}

/** Edits one file of the catalogue; untouched parts keep their comments and form. */
class FileEditor {
  isChanged = false
  readonly slugs = new Map<string, { node: YAMLMap; entry: CatalogueEntry }>()
  private readonly file: SourceFile
  private readonly document

  constructor(file: SourceFile) {
    this.file = file
    this.document = parseDocument(file.text, { version: '1.2', schema: 'core' })
    const list = this.document.get('sites')
    if (!isSeq(list)) return
    if (list.items.length === 0) list.flow = false // `[]` becomes lines
    const { sites, nodes } = readYaml(file.name, file.text, new Diagnostics())
    sites.forEach((raw, index) => {
      const entry = parseEntry(raw, new Diagnostics())
      const node = list.items[index]
      if (entry) this.slugs.set(entry.slug, { node: isMap(node) ? node : nodes[index], entry })
    })
  }

  get result(): SourceFile {
    const text = this.isChanged ? this.document.toString({ lineWidth: 0 }) : this.file.text
    return { ...this.file, text }
  }

  add(entry: CatalogueEntry): void {
    this.document.addIn(['sites'], this.document.createNode(toRaw(entry)))
    this.isChanged = true
  }

  /** Returns the keys whose values changed. */
  change(raw: RawSite, incoming: CatalogueEntry): string[] {
    const { node, entry } = this.slugs.get(incoming.slug)!
    const named = FIELDS.filter(({ key }) => raw.fields.has(key))
    const changed = named.filter(
      ({ property }) => JSON.stringify(entry[property]) !== JSON.stringify(incoming[property]),
    )
    for (const { key, property } of changed) node.set(key, this.document.createNode(incoming[property]))
    if (changed.length > 0) this.isChanged = true
    return changed.map(({ key }) => key)
  }
}
