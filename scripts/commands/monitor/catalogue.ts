/** The catalogue of sites: validate, import, export, list (spec 8.1). */
import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import type { CatalogueEntry } from '../../../monitor/catalogue/entry.ts'
import { detectFormat, exportSites, type Format, importSites } from '../../../monitor/catalogue/transfer.ts'
import { timestamp } from '../../../monitor/scoring/probe-point.ts'
import { displayScore } from '../../../monitor/scoring/score.ts'
import { readSnapshot } from '../../../monitor/storage/publish.ts'
import type { SiteState } from '../../../monitor/storage/snapshot.ts'
import { UsageError } from '../arguments.ts'
import { note, print, printJson, printTable } from '../output.ts'
import { type Command, DiagnosticsError, JSON_OPTION } from './command.ts'
import { createContext, readCatalogue, withDatabase } from './context.ts'

export const validate: Command = {
  usage: `validate [<path>]

Checks a catalogue (a file, or a folder of *.yaml) and optout.yaml (beside the file, or in the folder) as the monitor does.
Default: CATALOGUE_PATH.
`,
  operands: [0, 1],
  run({ operands }, io) {
    const { settings, options } = createContext(io)
    const path = operands[0] ?? settings.CATALOGUE_PATH
    const { entries, optOut, isOptedOut } = readCatalogue(path, options)
    const hidden = entries.filter(({ isHidden }) => isHidden).length
    const sites = `${entries.length} sites, ${hidden} hidden, ${entries.filter(isOptedOut).length} opted out`
    print(io, `${path}: ${sites}; ${optOut.size} hosts in the opt-out list. No errors.`)
    return 0
  },
}

export const importFile: Command = {
  usage: `import <file.csv|json|yaml> [--dry-run] [--allow-key-files]

Adds the sites of the file to CATALOGUE_PATH and updates the given fields of known sites; removes nothing. With an error
anywhere nothing is changed. A running monitor reads the catalogue within 2 s.

  --dry-run           print the changes without making them
  --allow-key-files   allow the file to name key files, and to change the address that an existing key is sent to; refused
                      otherwise, since the content of a key file is sent to the address of its site
`,
  operands: [1, 1],
  options: { 'dry-run': { type: 'boolean' }, 'allow-key-files': { type: 'boolean' } },
  run({ operands: [file], has }, io) {
    const format = detectFormat(file)
    if (format === null) throw new UsageError(`"${file}" ends in none of .csv, .json, .yaml.`)
    const { settings, options } = createContext(io)
    const plan = importSites({
      cataloguePath: settings.CATALOGUE_PATH,
      name: basename(file),
      text: readUtf8(file),
      format,
      isDryRun: has('dry-run'),
      areKeyFilesAllowed: has('allow-key-files'),
      probePorts: options.ports,
    })
    if (plan.diagnostics.length > 0) throw new DiagnosticsError(plan.diagnostics)
    for (const slug of plan.added) print(io, `+ ${slug}`)
    for (const { slug, keys } of plan.changed) print(io, `~ ${slug}: ${keys.join(', ')}`)
    for (const { slug, keyFile, apiBase } of plan.keys)
      print(io, `! ${slug}: the key in ${keyFile} goes to ${apiBase}`)
    const { added, changed, unchanged, writtenFiles } = plan
    note(io, `${added.length} added, ${changed.length} changed, ${unchanged.length} as before`)
    const verb = has('dry-run') ? 'would write' : 'wrote'
    for (const path of writtenFiles) note(io, `${verb} ${path}`)
    return 0
  },
}

/** Another encoding, as spreadsheets may save it, would garble names. */
function readUtf8(file: string): string {
  const bytes = readFileSync(file)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    const fix = 'Save it as UTF-8; spreadsheets call it "CSV UTF-8".'
    throw new ConfigurationError(
      { code: 'IMPORT_ENCODING', where: file, what: 'is not UTF-8.', fix },
      { cause },
    )
  }
}

const FORMATS: readonly string[] = ['yaml', 'json', 'csv'] satisfies Format[]

export const exportAll: Command = {
  usage: `export [--format yaml|json|csv]

Writes all sites of CATALOGUE_PATH to standard output in a format that import reads. Default: yaml. In CSV, values that a
spreadsheet would run as formulas are prefixed with ', which import removes.
`,
  options: { format: { type: 'string' } },
  run({ text }, io) {
    const format = text('format') ?? 'yaml'
    if (!FORMATS.includes(format))
      throw new UsageError(`--format ${format} is none of ${FORMATS.join(', ')}.`)
    const { settings, options } = createContext(io)
    const { entries } = readCatalogue(settings.CATALOGUE_PATH, options)
    io.stdout.write(exportSites(entries, format as Format))
    return 0
  },
}

export const list: Command = {
  usage: `list [--json]

Lists the sites of CATALOGUE_PATH; published ones with tier, score, state and time of the latest probe. A site is published,
also in the API, after its first conclusive probe, whatever the result. sluice monitor probe <slug> probes one now.
`,
  options: JSON_OPTION,
  async run({ has }, io) {
    const { settings, options, path } = createContext(io)
    const { entries, isOptedOut } = readCatalogue(settings.CATALOGUE_PATH, options)
    const sites = existsSync(path)
      ? await withDatabase(path, (database) => readSnapshot(database, 0, 0).sites)
      : []
    const states = new Map(sites.map((site) => [site.slug, site]))
    const views = entries.map((entry) => toView(entry, states.get(entry.slug), isOptedOut(entry)))
    if (has('json')) printJson(io, views)
    else
      printTable(io, ['SLUG', 'TIER', 'SCORE', 'STATE', 'LAST PROBED', 'URL', 'REMARKS'], views.map(toCells))
    return 0
  },
}

function toView(
  { slug, name, url, isHidden, flags }: CatalogueEntry,
  site: SiteState | undefined,
  optedOut: boolean,
) {
  return {
    slug,
    name,
    url,
    tier: site?.tier ?? null,
    score: site ? displayScore(site.score) : null,
    state: site?.state ?? null,
    first_seen: site?.firstSeen ?? null,
    last_probed: site ? timestamp(site.lastProbedSec) : null,
    published: site !== undefined,
    hidden: isHidden,
    opted_out: optedOut,
    flags,
  }
}

function toCells(view: ReturnType<typeof toView>) {
  const { slug, tier, score, state, last_probed, url, published, hidden, opted_out, flags } = view
  const isWaiting = !published && !hidden && !opted_out
  const remarks = [
    ...(hidden ? ['hidden'] : []),
    ...(opted_out ? ['opted out'] : []),
    ...(isWaiting ? ['waits for its first probe'] : []),
    ...flags,
  ]
  return [
    slug,
    tier ?? '-',
    score?.toFixed(1) ?? '-',
    state ?? '-',
    last_probed ?? '-',
    url,
    remarks.join(', '),
  ]
}
