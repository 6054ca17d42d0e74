/**
 * Import and export of catalogues (spec 8.1), as functions; the command line and its exit codes are elsewhere.
 *
 *     csv, json, yaml ──► entries ──► plan: added, changed, unchanged ──► the catalogue's text with them in ──► all checks
 *                                        └── dry run ends here                      └── good ──► files replaced, one by one
 *
 * An import adds sites and changes what it names of known ones; it removes nothing. Comments and order of the files stay.
 * In a folder a new site goes to imported.yaml, a known one stays in its file. A file from elsewhere decides neither which
 * local file is sent out as a key nor where a key goes, unless that is allowed (`areKeyFilesAllowed`).
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
  keys: KeyRoute[] // those that are new or changed
  diagnostics: string[] // any: nothing was written
  writtenFiles: string[] // paths; of a dry run what would be written
}

/** A local file, and where what is in it is sent. */
export interface KeyRoute {
  slug: string
  keyFile: string
  apiBase: string
}

export interface ImportOptions {
  cataloguePath: string // need not exist yet if it is a file
  name: string // of the imported file, as complaints say it
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
  const complaints = new Diagnostics()
  const incoming = readIncoming(name, text, format, complaints)
  const files = existsSync(cataloguePath) ? readFiles(cataloguePath, complaints).files : []
  if (complaints.isEmpty) checkFiles(files, complaints, probePorts) // a catalogue with mistakes is mended first
  if (!complaints.isEmpty) return { ...plan, diagnostics: complaints.lines() }

  const editors = files.map((file) => new FileEditor(file))
  const known = new Map(editors.flatMap(({ slugs }) => [...slugs]).map(([slug, { entry }]) => [slug, entry]))
  const target = targetFor(cataloguePath, editors)
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
    complaints,
    probePorts,
  )
  plan.keys = entries.filter((entry) => isKeySentAnew(entry, known.get(entry.slug))).map(keyRouteOf)
  if (!areKeyFilesAllowed) for (const route of plan.keys) complaints.add(keyRefused(route, incoming))
  if (!complaints.isEmpty) return { ...plan, diagnostics: complaints.lines() }
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

/** By the ending of a file's name; null: none of ours. */
export function detectFormat(path: string): Format | null {
  const ending = extname(path).slice(1).toLowerCase()
  if (ending === 'yml') return 'yaml'
  return ending === 'csv' || ending === 'json' || ending === 'yaml' ? ending : null
}

interface Incoming {
  raw: RawSite
  entry: CatalogueEntry
}

function readIncoming(name: string, text: string, format: Format, complaints: Diagnostics): Incoming[] {
  if (Buffer.byteLength(text) > FILE_BYTES_MAX) {
    const fix = `Keep at most ${FILE_BYTES_MAX} bytes; import the rest with a second file.`
    complaints.add({ file: name, line: 0, site: null, code: 'FILE_TOO_LARGE', what: 'is too much.', fix })
    return []
  }
  const raws =
    format === 'csv' ? readCsv(name, text, complaints) : readYaml(name, text, complaints, true).sites
  const seen = new Map<string, number>()
  return raws.flatMap((raw) => {
    const entry = parseEntry(raw, complaints)
    if (!entry) return []
    const line = seen.get(entry.slug)
    if (line !== undefined) {
      const what = `slug ${JSON.stringify(entry.slug)} stands in line ${line} already.`
      complaints.add({
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

function isKeySentAnew({ keyFile, apiBase }: CatalogueEntry, before: CatalogueEntry | undefined): boolean {
  return keyFile !== null && (keyFile !== before?.keyFile || apiBase !== before.apiBase)
}

function keyRouteOf({ slug, keyFile, apiBase }: CatalogueEntry): KeyRoute {
  return { slug, keyFile: keyFile!, apiBase }
}

function keyRefused({ slug, keyFile, apiBase }: KeyRoute, incoming: readonly Incoming[]): Diagnostic {
  const { file, line } = incoming.find(({ entry }) => entry.slug === slug)!.raw
  const what = `the key in ${keyFile} would be sent to ${apiBase}.`
  const fix =
    'If that is right, import with --allow-key-files; else change key_file or the address of this site.'
  return { file, line, site: slug, code: 'KEY_FILE_REFUSED', what, fix }
}

function record(plan: ImportPlan, slug: string, keys: string[]): void {
  if (keys.length > 0) plan.changed.push({ slug, keys })
  else plan.unchanged.push(slug)
}

/** Where new sites go. */
function targetFor(path: string, editors: FileEditor[]): FileEditor {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  const file = isFolder ? join(path, IMPORTED) : path
  return (
    editors.find(({ result }) => result.path === file) ??
    new FileEditor({ path: file, name: file, text: EMPTY })
  )
}

/** One file of the catalogue, changed in place: what is not touched keeps its comments and its form. */
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

  /** Returns the keys that now say something else. */
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
