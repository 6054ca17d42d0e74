/**
 * The owner's side of the writer: collects writes, sends them in batches, keeps them until they are on disk.
 *
 *     add ──► queue, at most 50,000 rows ── 500 rows, or 200 ms ──► current batch ──► wrote ──► released
 *                                                                        └── disk full, thread ended ──► sent again
 *
 * One batch at a time: meanwhile the next one grows, so a slow disk gets larger batches instead of more. A batch may be sent
 * twice, because every write is idempotent (rows.ts). `add` never waits and never throws.
 */
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import { ThreadSupervisor } from '../../engine/runtime/thread-supervisor.ts'
import type { FromWriter, ToWriter, WriterData, WriterRequest, WriterResponses } from './messages.ts'
import type { ModelIndexDelta } from './model-index.ts'
import { PendingRequests } from './pending-requests.ts'
import { WriteQueue } from './queue.ts'
import type { Write } from './rows.ts'
import type { SnapshotRows } from './snapshot.ts'
import { QUIET } from './thread-flags.ts'

const BATCH_ROWS = 500
const BATCH_MS = 200 // spec: at most 250 ms may be lost; the rest is for transfer and commit
const RETRY_MS = 1_000 // a disk that is full stays full for a while
const RESTART_PAUSES_MS = [100, 1_000, 5_000, 30_000]
const CLOSE_WAIT_MS = 5_000

export interface WriterHooks {
  log: Log
  snapshot: (rows: SnapshotRows, models: ModelIndexDelta) => void
}

export class Writer {
  isFailing = false // the last batch could not be written; it is sent again
  refusedCount = 0 // writes with a wrong value, an unknown site or an impossible time
  readonly queue: WriteQueue
  private readonly data: WriterData
  private readonly hooks: WriterHooks
  private readonly supervisor: ThreadSupervisor<ToWriter, FromWriter>
  private readonly requests = new PendingRequests()
  private isReady = false
  private isClosing = false
  private batch: Write[] = []
  private isSent = false // the batch has been sent, without a response so far
  private isDue = false // something has waited for BATCH_MS
  private timer: NodeJS.Timeout | null = null
  private addedCount = 0
  private waiters: { count: number; resolve: () => void }[] = []
  private tickDone: { promise: Promise<void>; resolve: () => void } | null = null

  constructor(data: WriterData, hooks: WriterHooks, rowsMax?: number) {
    this.data = data
    this.hooks = hooks
    this.queue = new WriteQueue(rowsMax)
    // No bound on its start or its silence: a migration takes as long as it takes, and a disk that hangs would stop the next thread, too.
    this.supervisor = new ThreadSupervisor(
      {
        file: resolveModule('./writer-thread.ts', import.meta.url),
        ...{ name: 'monitor-store', execArgv: QUIET, pausesMs: RESTART_PAUSES_MS },
        workerData: () => data,
        isReady: ({ kind }) => kind === 'ready',
      },
      {
        onMessage: (message) => this.receive(message),
        onEnd: (reason) => this.onThreadEnd(reason),
        onFailure: ({ message }, pauseMs) => {
          const text = `the monitor's writer thread ended and restarts in ${pauseMs} ms: ${message}`
          hooks.log('error', text)
        },
      },
    )
  }

  /** Rejects if the file cannot be opened or migrated; then nothing runs. */
  async start(): Promise<void> {
    await this.supervisor.start()
  }

  add(write: Write): void {
    this.queue.push(write)
    this.addedCount += 1
    if (this.queue.rowsCount >= BATCH_ROWS) this.send()
    else this.timer ??= setTimeout(() => this.sendWhatIsDue(), BATCH_MS)
  }

  /** Resolves when everything added so far is written, refused or dropped; not while the disk fails. */
  flush(): Promise<void> {
    if (this.settledCount >= this.addedCount) return Promise.resolve()
    return new Promise((resolve) => {
      this.waiters.push({ count: this.addedCount, resolve })
      this.sendWhatIsDue()
    })
  }

  request<K extends WriterRequest['kind']>(
    request: Extract<WriterRequest, { kind: K }>,
  ): Promise<WriterResponses[K]> {
    if (!this.isReady) return Promise.reject(new Error('the store is not open'))
    return this.requests.add((id) => this.post({ kind: 'request', id, request }))
  }

  /** Runs what is due: snapshots, roll-ups, pruning. Resolves when done; a call during a tick waits for that one. */
  tick(nowSec: number): Promise<void> {
    if (this.tickDone) return this.tickDone.promise
    if (!this.isReady) return Promise.resolve()
    this.tickDone = Promise.withResolvers<void>()
    this.post({ kind: 'tick', nowSec })
    return this.tickDone.promise
  }

  /** Writes what it can within 5 s. Returns how many writes were lost. */
  async close(): Promise<number> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_WAIT_MS)
    })
    await Promise.race([this.flush(), timeout])
    clearTimeout(timer)
    this.isClosing = true
    if (this.timer) clearTimeout(this.timer)
    const lost = this.addedCount - this.settledCount
    await this.supervisor.stop({ kind: 'close' }, null)
    return lost
  }

  private sendWhatIsDue(): void {
    if (this.timer) clearTimeout(this.timer)
    this.timer = null
    this.isDue = true
    this.send()
  }

  private send(): void {
    if (!this.isReady || this.isSent || this.isClosing) return
    if (this.batch.length === 0) {
      if (!this.isDue && this.queue.rowsCount < BATCH_ROWS) return
      this.batch = this.queue.take(BATCH_ROWS)
      this.isDue = this.isDue && this.queue.rowsCount > 0
      if (this.batch.length === 0) return
    }
    this.isSent = true
    this.post({ kind: 'batch', writes: this.batch })
  }

  private receive(message: FromWriter): void {
    if (message.kind === 'ready') {
      this.isReady = true
      this.send()
    } else if (message.kind === 'wrote') this.onWrote(message)
    else if (message.kind === 'response') this.requests.settle(message)
    else if (message.kind === 'snapshot') this.hooks.snapshot(message.rows, message.models)
    else if (message.kind === 'log') this.hooks.log(message.level, message.text)
    else if (message.kind === 'ticked') this.onTicked()
  }

  private onWrote({ error, refused, why }: Extract<FromWriter, { kind: 'wrote' }>): void {
    this.isSent = false
    if (error) {
      if (!this.isFailing)
        this.hooks.log('error', `the monitor cannot write ${this.data.path}, and keeps trying: ${error}`)
      this.isFailing = true
      setTimeout(() => this.send(), RETRY_MS)
      return
    }
    if (this.isFailing) this.hooks.log('warning', `the monitor can write ${this.data.path} again`)
    this.isFailing = false
    this.batch = []
    this.refusedCount += refused
    if (refused > 0)
      this.hooks.log('warning', `${refused} writes of a batch were refused, the first because: ${why}`)
    this.waiters = this.waiters.filter(({ count, resolve }) => {
      if (this.settledCount >= count) resolve()
      return this.settledCount < count
    })
    if (this.waiters.length > 0) this.isDue = true
    this.send()
  }

  /** Written, refused or dropped. */
  private get settledCount(): number {
    return this.addedCount - this.queue.writesCount - this.batch.length
  }

  private onTicked(): void {
    this.tickDone?.resolve()
    this.tickDone = null
  }

  private onThreadEnd(reason: Error): void {
    this.isReady = false
    this.isSent = false
    this.onTicked()
    this.requests.rejectAll(this.isClosing ? new Error('the store is closed') : reason)
  }

  private post(message: ToWriter): void {
    this.supervisor.post(message)
  }
}
