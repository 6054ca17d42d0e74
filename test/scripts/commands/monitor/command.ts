/**
 * `sluice monitor …` with a folder of its own for catalogue and database, and nothing else in its environment.
 *
 *     const monitor = monitorIn({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
 *     await monitor.run('list', '--json')      → { code, out, err }, in this process
 *     await monitor.spawn('list', '--json')    → the same as a process of its own
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { Database } from '../../../../monitor/storage/database.ts'
import { migrate } from '../../../../monitor/storage/migrate.ts'
import { databasePath } from '../../../../monitor/storage/path.ts'
import { type CommandResult, runCommand } from '../../../helpers/command-io.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'

const SLUICE =
  process.env.SLUICE_TEST_SCRIPT ?? fileURLToPath(new URL('../../../../scripts/sluice.ts', import.meta.url))

export interface MonitorCommand {
  folder: string // the working directory
  path: string // of the database
  env: Record<string, string>
  run(...args: string[]): Promise<CommandResult>
  spawn(...args: string[]): Promise<CommandResult>
  read(file: string): string
  /** Another connection to the same database, as the monitor has it. */
  openDatabase(): Promise<Database>
}

export function monitorIn(
  files: Record<string, string> = {},
  settings: Record<string, string> = {},
): MonitorCommand {
  const folder = makeTemporaryFolder()
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
    run: (...args) => {
      process.chdir(folder)
      return runCommand(['monitor', ...args], env)
    },
    spawn: (...args) => spawnSluice(['monitor', ...args], { cwd: folder, env }),
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

function spawnSluice(
  args: string[],
  options: { cwd: string; env: Record<string, string> },
): Promise<CommandResult> {
  const child = spawn(process.execPath, [SLUICE, ...args], options)
  onTestFinished(() => void child.kill('SIGKILL'))
  const result: CommandResult = { code: null, out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    result.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    result.err += text
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ ...result, code }))
  })
}
