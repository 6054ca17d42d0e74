/** Context of the commands, from the environment: settings, catalogue, database. */
import { existsSync, readFileSync } from 'node:fs'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
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
import { monitorRows, type Settings } from '../../../monitor/settings.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { migrate } from '../../../monitor/storage/migrate.ts'
import { createParentFolder, databasePath } from '../../../monitor/storage/path.ts'
import type { Io } from '../io.ts'
import { note } from '../output.ts'
import { DiagnosticsError } from './command.ts'

export interface CommandContext {
  settings: Settings
  options: MonitorOptions
  path: string // of the database
}

/** Throws ConfigurationError, as the start of the monitor would. */
export function createContext(io: Io): CommandContext {
  const { settings, warnings } = parseSettings(io.env, monitorRows)
  for (const warning of warnings) note(io, `warning: ${warning}`)
  const options = monitorOptions(settings, io.env)
  return { settings, options, path: databasePath(settings.MONITOR_DATA_DIR) }
}

export interface ReadCatalogue {
  entries: CatalogueEntry[] // all of them, by slug
  optOut: Set<string>
  isOptedOut(entry: CatalogueEntry): boolean
}

/** Throws DiagnosticsError. Unlike the monitor's load it includes sites that opted out. */
export function readCatalogue(path: string, { ports }: MonitorOptions): ReadCatalogue {
  const diagnostics = new Diagnostics()
  const { files, optOut: file } = readFiles(path, diagnostics)
  const optOut = readOptOut(OPT_OUT_NAME, file?.text ?? null, diagnostics)
  const { entries } = checkFiles(files, diagnostics, ports)
  if (!diagnostics.isEmpty) throw new DiagnosticsError(diagnostics.lines())
  return {
    entries: entries.sort((a, b) => (a.slug < b.slug ? -1 : 1)),
    optOut,
    isOptedOut: (entry) => isOptedOut(entry, optOut),
  }
}

/** The opt-outs alone, which are needed even if the catalogue is missing or invalid. Throws DiagnosticsError. */
export function readOptOuts(cataloguePath: string): { path: string; hosts: Set<string> } {
  const diagnostics = new Diagnostics()
  const path = optOutPath(cataloguePath)
  const text = existsSync(path) ? readFileSync(path, 'utf8') : null
  const hosts = readOptOut(OPT_OUT_NAME, text, diagnostics)
  if (!diagnostics.isEmpty) throw new DiagnosticsError(diagnostics.lines())
  return { path, hosts }
}

/** With or without a running monitor. A missing database is created if `isNew`, otherwise a ConfigurationError. */
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
  const what = 'there is no database yet; the monitor creates it at its first start.'
  throw new ConfigurationError({
    code: 'STORE_MISSING',
    where: path,
    what,
    fix: 'Start it, or set MONITOR_DATA_DIR.',
  })
}
