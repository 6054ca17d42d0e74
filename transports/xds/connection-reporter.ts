/**
 * Reports the connection to the management server (spec 8.6): a log line per change and two gauges.
 *
 *     connected ── info ──► lost, with the reason ── error ──► connected · lost · connected · lost ──► …
 *                                                              └── a server that keeps dropping: one line a minute
 *
 * A new connection alone does not reset this; `settled` does. Each reason is limited to one line a minute, since reasons may
 * alternate. At level debug there is a line for each attempt.
 */
import type { RulesSourceOptions } from '../../engine/config/rules-loader.ts'
import { RateLimitedLogByKind } from '../../engine/runtime/rate-limited-log.ts'
import { goDuration } from '../../engine/stores/connect-retry.ts'

const CONNECTED = 'sluice.xds.connected' // 0 or 1
const LAST_RESPONSE = 'sluice.xds.last_response_timestamp_seconds' // Unix time, valid response or not; 0 = none yet
const REASONS_MAX = 16 // further reasons share one limit
const REASON_MS = 60_000

type ConnectionReporterOptions = Pick<RulesSourceOptions, 'log' | 'totals' | 'onDisconnected'>

export class ConnectionReporter {
  private readonly options: ConnectionReporterOptions
  private readonly nowMs: () => number
  private readonly reasons: RateLimitedLogByKind
  private isConnectionReported = false
  private disconnectedSince: Date | null = null // the first loss

  /** `nowMs` is for tests. */
  constructor(options: ConnectionReporterOptions, nowMs: () => number = Date.now) {
    this.options = options
    this.nowMs = nowMs
    this.reasons = new RateLimitedLogByKind(
      (line) => options.log('error', line),
      REASONS_MAX,
      REASON_MS,
      nowMs,
    )
    options.totals.set(CONNECTED, 0)
    options.totals.set(LAST_RESPONSE, 0)
    this.reportDisconnected()
  }

  connected(name: string): void {
    const { totals, log, onDisconnected } = this.options
    totals.set(CONNECTED, 1)
    onDisconnected?.(null)
    log(this.isConnectionReported ? 'debug' : 'info', `connected to ${name} for rules`)
    this.isConnectionReported = true
  }

  received(): void {
    this.options.totals.set(LAST_RESPONSE, Math.floor(this.nowMs() / 1_000))
  }

  lost(why: string, waitMs: number): void {
    const wait = goDuration(waitMs)
    this.options.totals.set(CONNECTED, 0)
    this.reportDisconnected()
    this.options.log('debug', `reconnecting to the xDS Management Server in ${wait}`)
    this.reasons.log(
      why,
      `Failed to receive configuration from xDS Management Server: ${why}; again in ${wait}`,
    )
  }

  /** The connection is stable: the next change is logged again. */
  settled(): void {
    this.reasons.clear()
    this.isConnectionReported = false
    this.disconnectedSince = null
  }

  private reportDisconnected(): void {
    this.disconnectedSince ??= new Date(this.nowMs())
    this.options.onDisconnected?.(this.disconnectedSince)
  }
}
