/**
 * Reads all totals every STATS_FLUSH_INTERVAL and passes them to each sink (spec 7.3).
 *
 *     tick    read ─┬─► statsd        done        tick   read ─┬─► statsd
 *                   └─► another       ·····hangs·····          └─► (skipped: still busy with the last one)
 *
 * A slow sink is skipped until it is done; others do not wait for it. Nothing is lost, since totals only grow. The same holds
 * for reading. Values that a sink dropped are logged once a minute and reported to `onDropped`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../engine/runtime/messages.ts'
import { logOncePerMinute } from '../../engine/runtime/rate-limited-log.ts'
import type { Sink, Snapshot } from './sink.ts'

const FINISH_MS = 1_000 // for a sink that hangs
const TIMER_MS_MAX = 2 ** 31 - 1 // of Node; a longer timer fires immediately

export interface FlushLoopOptions {
  intervalMs: number
  read: () => Promise<Snapshot>
  sinks: readonly Sink[]
  log: Log
  onDropped?: (count: number) => void // since the last time
}

export class FlushLoop {
  private readonly options: FlushLoopOptions
  private readonly logFailure: (line: string) => void
  private readonly logDropped: (line: string) => void
  private readonly busy = new Set<Sink>()
  private readonly droppedReported = new Map<Sink, number>()
  private isReading = false
  private readonly running = new Set<Promise<void>>() // at most one reads and one waits for a sink; others are skipped
  private timer: NodeJS.Timeout | undefined

  constructor(options: FlushLoopOptions) {
    this.options = options
    this.logFailure = logOncePerMinute((line) => options.log('warning', line))
    this.logDropped = logOncePerMinute((line) => options.log('warning', line))
  }

  start(): void {
    const { sinks, intervalMs } = this.options
    for (const sink of sinks) sink.start()
    this.timer = setInterval(() => void this.flush(), Math.min(intervalMs, TIMER_MS_MAX)).unref()
  }

  /** Flushes now. Resolves when every sink that took it is done; never rejects. */
  flush(): Promise<void> {
    const flush = this.flushOnce().finally(() => this.running.delete(flush))
    this.running.add(flush)
    return flush
  }

  /** The last flush, after flushes in progress, which may have read before the last hits. */
  async finish(): Promise<void> {
    clearInterval(this.timer)
    const timeout = () => sleep(FINISH_MS, undefined, { ref: false })
    await Promise.race([Promise.all(this.running), timeout()])
    await Promise.race([this.flush(), timeout()])
  }

  private async flushOnce(): Promise<void> {
    if (this.isReading) return this.logFailure('statistics flush skipped: the previous read is not finished')
    this.isReading = true
    let snapshot: Snapshot
    try {
      snapshot = await this.options.read()
    } catch (error) {
      return this.logFailure(`statistics cannot be read: ${(error as Error).message}`)
    } finally {
      this.isReading = false
    }
    await Promise.all(this.options.sinks.map((sink) => this.flushSink(sink, snapshot)))
  }

  /** Does not flush (spec 7.3); call `finish` before for a last flush. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    await Promise.all(this.options.sinks.map((sink) => sink.close()))
  }

  private async flushSink(sink: Sink, snapshot: Snapshot): Promise<void> {
    if (this.busy.has(sink))
      return this.logFailure('statistics flush skipped for a sink: its previous flush is not finished')
    this.busy.add(sink)
    try {
      await sink.flush(snapshot)
    } catch (error) {
      this.logFailure(`a statistics sink failed: ${(error as Error).message}`) // a defect
    } finally {
      this.busy.delete(sink)
    }
    this.reportDropped(sink)
  }

  private reportDropped(sink: Sink): void {
    const count = sink.dropped - (this.droppedReported.get(sink) ?? 0)
    if (count === 0) return
    this.droppedReported.set(sink, sink.dropped)
    this.options.onDropped?.(count)
    this.logDropped(
      `statistics: ${count} values dropped (buffer full or connection lost); ${sink.dropped} since the start`,
    )
  }
}
