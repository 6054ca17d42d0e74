/**
 * The writer's thread, the only one that writes the database.
 *
 *     start ──► open ──► migrate ──► first snapshot ──► ready
 *     batch ──► one transaction ──► wrote
 *     tick  ──► snapshot, if 5 s have passed and anything changed ──► roll up and prune, step by step ──► ticked
 *
 * Between two steps waiting messages are handled, so a batch waits for one step (tens of ms) at most. It reads no clock: the
 * time comes with the ticks.
 */
import { statSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { handleInspections } from '../../engine/runtime/inspection/inspected-thread.ts'
import { applyBatch, type Refusal, TWO_SENDERS } from './apply.ts'
import { syncCatalogue } from './catalogue-transaction.ts'
import { Database, unusableError } from './database.ts'
import { restartDetections } from './detections.ts'
import { acquireLock } from './lock.ts'
import type { FromWriter, ToWriter, WriterData, WriterRequest } from './messages.ts'
import { backupTo, migrate } from './migrate.ts'
import { ModelReader } from './model-index-delta.ts'
import { createParentFolder } from './path.ts'
import { Prune } from './prune.ts'
import { readSnapshot } from './publish.ts'
import { RollUp } from './roll-up.ts'
import type { Write } from './rows.ts'
import { saveVantage } from './vantages.ts'

const SNAPSHOT_EVERY_SEC = 5

class WriterThread {
  private readonly database: Database
  private readonly lock: DatabaseSync | null
  private readonly rollUp: RollUp
  private readonly prune: Prune
  private readonly models: ModelReader
  private nowSec = 0
  private publishedAtSec = 0
  private isChanged = true
  private foreignVersion: unknown = null // changes when another process commits (`monitor keys create`)
  private isFailing = false
  private readonly sharedVantages = new Set<number>() // reported; at most one per vantage
  private isClosing = false
  private readonly inode: number
  private isReplaced = false // the file was removed or replaced

  constructor(database: Database, lock: DatabaseSync | null) {
    this.database = database
    this.lock = lock
    this.inode = readInode(database.path)
    this.rollUp = new RollUp(database)
    this.prune = new Prune(database)
    this.models = new ModelReader(database)
  }

  receive(message: ToWriter): void {
    if (message.kind === 'batch') this.write(message.writes)
    else if (message.kind === 'tick') void this.tick(message.nowSec)
    else if (message.kind === 'request') void this.respond(message.id, message.request)
    else this.close()
  }

  publish(): void {
    const sql = `INSERT INTO meta (key, value) VALUES ('data_version', '1')
      ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1`
    this.database.run(sql)
    const { value } = this.database.get<{ value: string }>(
      "SELECT value FROM meta WHERE key = 'data_version'",
    )!
    const rows = readSnapshot(this.database, Number(value), this.nowSec)
    send({ kind: 'snapshot', rows, models: this.models.read() })
    this.publishedAtSec = this.nowSec
    this.isChanged = false
  }

  private write(writes: Write[]): void {
    try {
      const refusals = applyBatch(this.database, writes, this.nowSec)
      this.isChanged = true
      for (const write of writes) if (write.kind === 'observation') this.models.touch(write.siteId)
      this.reportTwoSenders(refusals)
      const first = refusals[0] && `${refusals[0].write.kind}: ${refusals[0].why}`
      send({ kind: 'wrote', refused: refusals.length, why: first ?? null, error: null })
    } catch (error) {
      send({ kind: 'wrote', refused: 0, why: null, error: (error as Error).message })
    }
  }

  private async tick(nowSec: number): Promise<void> {
    this.nowSec = nowSec
    try {
      this.publishIfDue()
      while (!this.isClosing && (this.rollUp.step(this.nowSec) || this.prune.step(this.nowSec)))
        await nextTurn()
      this.isFailing = false
    } catch (error) {
      // The next tick starts again; logged once until it succeeds.
      const text = `snapshots, roll-ups and pruning fail and are retried: ${(error as Error).message}`
      if (!this.isFailing) send({ kind: 'log', level: 'error', text })
      this.isFailing = true
    }
    send({ kind: 'ticked' })
  }

  private publishIfDue(): void {
    const agoSec = this.nowSec - this.publishedAtSec
    if (agoSec >= 0 && agoSec < SNAPSHOT_EVERY_SEC) return // below 0: the clock was set back
    this.reportIfGone()
    const foreignVersion = this.database.pragma('data_version')
    if (foreignVersion !== this.foreignVersion) this.isChanged = true
    this.foreignVersion = foreignVersion
    if (this.isChanged) this.publish()
  }

  /** Logged once. The open file is still written and lost when this process ends. */
  private reportIfGone(): void {
    if (this.isReplaced || readInode(this.database.path) === this.inode) return
    this.isReplaced = true
    const text = `${this.database.path} was removed or replaced: results from now on are lost. Restart the monitor, and stop it before replacing the file.`
    send({ kind: 'log', level: 'error', text })
  }

  /** Once per vantage and start. */
  private reportTwoSenders(refusals: readonly Refusal[]): void {
    for (const { write, why } of refusals) {
      if (why !== TWO_SENDERS || write.kind !== 'probe' || this.sharedVantages.has(write.vantageId)) continue
      this.sharedVantages.add(write.vantageId)
      const sql = 'SELECT name FROM vantage WHERE id = ?'
      const { name } = this.database.get<{ name: string }>(sql, write.vantageId)!
      const text = `vantage ${name}: different results of one site and second, so two senders use its token, or its clock was set back`
      const fix = 'If no second agent was started with it, revoke it and create a new one (monitor vantage)'
      send({ kind: 'log', level: 'error', text: `${text}. ${fix}.` })
    }
  }

  private async respond(id: number, request: WriterRequest): Promise<void> {
    try {
      send({ kind: 'response', id, value: await this.run(request) })
    } catch (error) {
      send({ kind: 'response', id, error: error as Error })
    }
  }

  private run(request: WriterRequest): unknown {
    if (request.kind === 'backup') return backupTo(this.database, request.path)
    if (request.kind === 'vantage') return saveVantage(this.database, request)
    if (request.kind === 'restart-detections') return restartDetections(this.database, request.nowSec)
    const result = syncCatalogue(this.database, request.sites, request.nowSec)
    for (const id of result.claimsChanged) this.models.touch(id)
    this.nowSec = Math.max(this.nowSec, request.nowSec)
    this.publish() // a removed site is hidden at once (spec 8.1)
    return result
  }

  private close(): void {
    this.isClosing = true
    this.database.close() // also moves the log (WAL) into the file
    this.lock?.close()
    send({ kind: 'closed' })
    port.close()
  }
}

const port = parentPort as MessagePort

function send(message: FromWriter): void {
  port.postMessage(message)
}

function readInode(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? 0
}

/** A folder that cannot be created or written, or a file that SQLite refuses: an operator can fix these. */
function isDiskError(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  return code === 'ERR_SQLITE_ERROR' || /^E[A-Z]{2,20}$/.test(code)
}

async function start({ path, isRunner }: WriterData): Promise<void> {
  try {
    createParentFolder(path)
    const lock = isRunner ? acquireLock(path) : null
    const database = new Database(path)
    await migrate(database)
    const writer = new WriterThread(database, lock)
    port.on('message', (message: ToWriter) => writer.receive(message))
    writer.publish()
    send({ kind: 'ready' })
  } catch (error) {
    throw isDiskError(error) ? unusableError(path, error) : error
  }
}

handleInspections('monitor writer')
await start(workerData)
