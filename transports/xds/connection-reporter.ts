/**
 * What the operator is told about the connection to the management server (spec 8.6): a line per change, two gauges.
 *
 *     connected ── info ──► lost, and why ── error ──► connected · lost · connected · lost ──► …
 *                                                      └── a server that takes us in and throws us out: a line a minute
 *
 * A connection alone ends nothing: told again are both only after `settled`. Reasons may take turns, so each has its own
 * minute. At debug there is a line for each attempt.
 */

import type { RulesSourceOptions } from '../../engine/config/rules-loader.ts'
import { logOncePerMinute } from '../../engine/runtime/rate-limited-log.ts'
import { goDuration } from '../../engine/stores/connect-retry.ts'

const CONNECTED = 'sluice.xds.connected' // 0 or 1
const LAST_RESPONSE = 'sluice.xds.last_response_timestamp_seconds' // since 1970, good or bad; 0 = none has come
const REASONS_MAX = 16 // told apart; all others share a minute

type ConnectionReporterOptions = Pick<RulesSourceOptions, 'log' | 'totals' | 'onDisconnected'>

export class ConnectionReporter {
  private readonly options: ConnectionReporterOptions
  private readonly nowMs: () => number
  private readonly reasons = new Map<string, (line: string) => void>()
  private isConnectionReported = false
  private awaySince: Date | null = null // the first loss

  /** `nowMs` is for tests. */
  constructor(options: ConnectionReporterOptions, nowMs: () => number = Date.now) {
    this.options = options
    this.nowMs = nowMs
    options.totals.set(CONNECTED, 0)
    options.totals.set(LAST_RESPONSE, 0)
    this.reportAway()
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
    this.reportAway()
    this.options.log('debug', `connecting to the xDS Management Server anew in ${wait}`)
    this.log(why, `Failed to receive configuration from xDS Management Server: ${why}; again in ${wait}`)
  }

  /** All is well: what happens next is news. */
  settled(): void {
    this.reasons.clear()
    this.isConnectionReported = false
    this.awaySince = null
  }

  private reportAway(): void {
    this.awaySince ??= new Date(this.nowMs())
    this.options.onDisconnected?.(this.awaySince)
  }

  private log(why: string, line: string): void {
    const reason = this.reasons.has(why) || this.reasons.size < REASONS_MAX ? why : ''
    const logReason =
      this.reasons.get(reason) ?? logOncePerMinute((text) => this.options.log('error', text), this.nowMs)
    this.reasons.set(reason, logReason)
    logReason(line)
  }
}
