/** Maintenance of the database, with or without a running monitor (spec 8.1, 8.2). */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import type { Log } from '../../../engine/runtime/messages.ts'
import evaluate from '../../../monitor/evaluation/job.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { backupTo } from '../../../monitor/storage/migrate.ts'
import { Prune } from '../../../monitor/storage/prune.ts'
import { openStore } from '../../../monitor/storage/store.ts'
import { UsageError } from '../arguments.ts'
import { note, Progress } from '../output.ts'
import type { Command } from './command.ts'
import { createContext, mustExist, withDatabase } from './context.ts'

const PAUSE_MS = 20 // between two steps, so that a running monitor can write
const FLUSH_MS_MAX = 60_000 // beyond, unwritten rows are counted as lost: the disk is probably full
const PAGES_PER_STEP = 2_000 // 8 MB returned to the file system

export const backup: Command = {
  usage: `backup <file>

Copies the database to a new file, also while the monitor runs. To restore: stop the monitor, replace monitor.sqlite in
MONITOR_DATA_DIR with the copy, and remove monitor.sqlite-wal and monitor.sqlite-shm.
`,
  operands: [1, 1],
  async run({ operands: [target] }, io) {
    if (target === '') throw new UsageError('the file name is empty.')
    const { path } = createContext(io)
    mustExist(path)
    if (existsSync(target)) {
      const fix = 'Choose another name, or remove it.'
      throw new ConfigurationError({ code: 'BACKUP_EXISTS', where: target, what: 'already exists.', fix })
    }
    const database = new Database(path)
    const progress = new Progress(io)
    try {
      // One snapshot for all pages: otherwise each commit of a running monitor restarts the copy, which might never end.
      // Cost: the write-ahead log grows until the copy is done.
      database.raw.exec('BEGIN')
      database.get('SELECT count(*) FROM sqlite_schema')
      await backupTo(database, target, (left, all) => progress.print(`${all - left} of ${all} pages`))
    } catch (cause) {
      const what = `could not be written: ${(cause as Error).message}.`
      const fix = 'Check the folder, its permissions and its free space.'
      throw new ConfigurationError({ code: 'BACKUP_FAILED', where: target, what, fix }, { cause })
    } finally {
      progress.end()
      database.close()
    }
    note(io, `copied ${path} to ${target}`)
    return 0
  },
}

export const prune: Command = {
  usage: `prune

Deletes what the monitor deletes every hour (raw probes after 7 days, hours after 32, days after 400, and so on) and
returns the space to the file system.
`,
  async run(_, io) {
    const { path } = createContext(io)
    const progress = new Progress(io)
    const deleted = await withDatabase(path, async (database) => {
      const nowSec = Math.floor(Date.now() / 1_000)
      const steps = new Prune(database)
      while (steps.step(nowSec)) {
        progress.print(`${deletedCount(database)} rows`)
        await sleep(PAUSE_MS)
      }
      while (Number(database.pragma('freelist_count')) > 0) {
        const before = database.pragma('freelist_count')
        database.raw.exec(`PRAGMA incremental_vacuum(${PAGES_PER_STEP})`)
        if (database.pragma('freelist_count') === before) break
        await sleep(PAUSE_MS)
      }
      return deletedCount(database)
    }).finally(() => progress.end())
    note(io, `${deleted} rows deleted`)
    return 0
  },
}

export const recompute: Command = {
  usage: `recompute

Evaluates all sites again from the stored measurements: region states, incidents, scores, tiers, boards. The monitor does so
every PROBE_INTERVAL_S; a running one serves the result within 5 s.
`,
  async run(_, io) {
    const { path, settings } = createContext(io)
    mustExist(path)
    const progress = new Progress(io)
    progress.print('evaluating all sites …')
    const log: Log = (level, text) => level !== 'info' && note(io, text)
    const store = await openStore({ path, log })
    let evaluatedCount = 0
    let lostCount = 0
    try {
      const writes = evaluate({
        path,
        nowSec: Math.floor(Date.now() / 1_000),
        intervalSec: settings.PROBE_INTERVAL_S,
        ownVantage: settings.PROBER_ENABLED ? settings.VANTAGE_NAME : null,
      })
      for (const write of writes) store.write(write)
      evaluatedCount = writes.filter(({ kind }) => kind === 'score').length
      await Promise.race([store.flush(), sleep(FLUSH_MS_MAX, null, { ref: false })])
    } finally {
      progress.end()
      lostCount = (await store.close()) + store.metrics().refused
    }
    note(io, `${evaluatedCount} sites evaluated${lostCount > 0 ? `, but ${lostCount} writes were lost` : ''}`)
    return lostCount === 0 ? 0 : 1
  },
}

/** Changes of this connection, which only deletes. */
function deletedCount(database: Database): number {
  return database.get<{ count: number }>('SELECT total_changes() AS count')!.count
}
