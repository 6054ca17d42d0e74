/** What commands work on, as the environment names it: settings, the catalogue, the database. */
import { existsSync, readFileSync } from 'node:fs'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { parseSettings, type Settings } from '../../../engine/settings/parse.ts'
import { type CatalogueEntry, Diagnostics } from '../../../monitor/catalogue/entry.ts'
import {
  checkFiles,
  isOptedOut,
  OPT_OUT_NAME,
  optOutPath,
  readFiles,
} from '../../../monitor/catalogue/load.ts'
import { readOptOut } from '../../../monitor/catalogue/opt-out.ts'
import { type MonitorOptions, monitorOptions } from '../../../monitor/service/options.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { migrate } from '../../../monitor/storage/migrate.ts'
import { createParentFolder, databasePath } from '../../../monitor/storage/path.ts'
import { Mistakes } from './command.ts'
import { note } from './output.ts'

export interface CommandContext {
  settings: Settings
  options: MonitorOptions
  path: string // of the database
}

/** Throws OperatorError, as the start of the monitor would. */
export function createContext(): CommandContext {
  const { settings, warnings } = parseSettings(process.env)
  for (const warning of warnings) note(`warning: ${warning}`)
  const options = monitorOptions(settings, process.env)
  return { settings, options, path: databasePath(settings.MONITOR_DATA_DIR) }
}

export interface ReadCatalogue {
  entries: CatalogueEntry[] // all of them, by slug
  optOut: Set<string>
  isOptedOut(entry: CatalogueEntry): boolean
}

/** Throws Mistakes. Unlike the monitor's own load it has what opted out, too. */
export function readCatalogue(path: string, { ports }: MonitorOptions): ReadCatalogue {
  const complaints = new Diagnostics()
  const { files, optOut: file } = readFiles(path, complaints)
  const optOut = readOptOut(OPT_OUT_NAME, file?.text ?? null, complaints)
  const { entries } = checkFiles(files, complaints, ports)
  if (!complaints.isEmpty) throw new Mistakes(complaints.lines())
  return {
    entries: entries.sort((a, b) => (a.slug < b.slug ? -1 : 1)),
    optOut,
    isOptedOut: (entry) => isOptedOut(entry, optOut),
  }
}

/** The opt-outs alone: what has to be known even where the catalogue is missing or has mistakes. Throws Mistakes. */
export function readOptOuts(cataloguePath: string): { path: string; hosts: Set<string> } {
  const complaints = new Diagnostics()
  const path = optOutPath(cataloguePath)
  const text = existsSync(path) ? readFileSync(path, 'utf8') : null
  const hosts = readOptOut(OPT_OUT_NAME, text, complaints)
  if (!complaints.isEmpty) throw new Mistakes(complaints.lines())
  return { path, hosts }
}

/** Beside a running monitor or without one. `isNew`: made where there is none, otherwise an OperatorError. */
export async function withDatabase<T>(
  path: string,
  work: (database: Database) => T | Promise<T>,
  { isNew = false } = {},
): Promise<T> {
  if (isNew) createParentFolder(path)
  else mustExist(path)
  const database = new Database(path)
  try {
    await migrate(database)
    return await work(database)
  } finally {
    database.close()
  }
}

export function mustExist(path: string): void {
  if (existsSync(path)) return
  const what = 'there is no database yet; the monitor makes it at its first start.'
  throw new ConfigurationError({
    code: 'STORE_MISSING',
    where: path,
    what,
    fix: 'Start it, or set MONITOR_DATA_DIR.',
  })
}
