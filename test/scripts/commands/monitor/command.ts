/**
 * `sluice monitor …` as an operator runs it: the real command in a child process, with a folder of its own for catalogue and
 * database, and nothing else in its environment.
 *
 *     const monitor = monitorIn({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
 *     await monitor.run('list', '--json')      → { code, out, err }
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { Database } from '../../../../monitor/storage/database.ts'
import { migrate } from '../../../../monitor/storage/migrate.ts'
import { databasePath } from '../../../../monitor/storage/path.ts'

const SLUICE = fileURLToPath(new URL('../../../../scripts/sluice.ts', import.meta.url))

export interface Ran {
  code: number | null
  out: string
  err: string
}

export interface MonitorCommand {
  folder: string
  path: string // of the database
  env: Record<string, string>
  run(...args: string[]): Promise<Ran>
  read(file: string): string
  /** The same file, as the monitor has it open. */
  openDatabase(): Promise<Database>
}

export function monitorIn(
  files: Record<string, string> = {},
  settings: Record<string, string> = {},
): MonitorCommand {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-monitor-'))
  const children = new Set<ChildProcess>()
  onTestFinished(() => {
    for (const child of children) child.kill('SIGKILL') // of a test that has failed meanwhile
    rmSync(folder, { recursive: true, force: true })
  })
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  const dataDir = join(folder, 'data')
  const env = {
    PATH: process.env.PATH ?? '',
    CATALOGUE_PATH: join(folder, 'catalogue.yaml'),
    MONITOR_DATA_DIR: dataDir,
    ...settings,
  }
  return {
    folder,
    path: databasePath(dataDir),
    env,
    run: async (...args) => {
      const child = spawn(process.execPath, [SLUICE, 'monitor', ...args], { cwd: folder, env })
      children.add(child)
      return ended(child).finally(() => children.delete(child))
    },
    read: (file) => readFileSync(join(folder, file), 'utf8'),
    openDatabase: async () => {
      mkdirSync(dataDir, { recursive: true })
      const database = new Database(databasePath(dataDir))
      onTestFinished(() => database.close())
      await migrate(database)
      return database
    },
  }
}

function ended(child: ChildProcess): Promise<Ran> {
  const ran: Ran = { code: null, out: '', err: '' }
  child.stdout!.setEncoding('utf8').on('data', (text) => {
    ran.out += text
  })
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    ran.err += text
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ ...ran, code }))
  })
}
