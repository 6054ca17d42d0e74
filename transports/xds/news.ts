/**
 * What the operator is told about the connection to the management server (spec 8.6): a line per change, two gauges.
 *
 *     connected ── info ──► lost, and why ── error ──► connected · lost · connected · lost ──► …
 *                                                      └── a server that takes us in and throws us out: a line a minute
 *
 * A connection alone ends nothing: told again are both only after `settled`. Reasons may take turns, so each has its own
 * minute. At debug there is a line for each attempt.
 */
import { goDuration } from '../../engine/counters/retry.ts'
import type { RulesSourceOptions } from '../../engine/rules-loader.ts'
import { seldom } from '../log-limiter.ts'

const CONNECTED = 'sluice.xds.connected' // 0 or 1
const LAST_RESPONSE = 'sluice.xds.last_response_timestamp_seconds' // since 1970, good or bad; 0 = none has come
const REASONS_MAX = 16 // told apart; all others share a minute

type NewsOptions = Pick<RulesSourceOptions, 'log' | 'totals' | 'onAway'>

export class News {
  private readonly options: NewsOptions
  private readonly nowMs: () => number
  private readonly reasons = new Map<string, (line: string) => void>()
  private isConnectionTold = false
  private awaySince: Date | null = null // the first loss

  /** `nowMs` is for tests. */
  constructor(options: NewsOptions, nowMs: () => number = Date.now) {
    this.options = options
    this.nowMs = nowMs
    options.totals.set(CONNECTED, 0)
    options.totals.set(LAST_RESPONSE, 0)
    this.away()
  }

  connected(name: string): void {
    const { totals, log, onAway } = this.options
    totals.set(CONNECTED, 1)
    onAway?.(null)
    log(this.isConnectionTold ? 'debug' : 'info', `connected to ${name} for rules`)
    this.isConnectionTold = true
  }

  received(): void {
    this.options.totals.set(LAST_RESPONSE, Math.floor(this.nowMs() / 1_000))
  }

  lost(why: string, waitMs: number): void {
    const wait = goDuration(waitMs)
    this.options.totals.set(CONNECTED, 0)
    this.away()
    this.options.log('debug', `connecting to the xDS Management Server anew in ${wait}`)
    this.tell(why, `Failed to receive configuration from xDS Management Server: ${why}; again in ${wait}`)
  }

  /** All is well: what happens next is news. */
  settled(): void {
    this.reasons.clear()
    this.isConnectionTold = false
    this.awaySince = null
  }

  private away(): void {
    this.awaySince ??= new Date(this.nowMs())
    this.options.onAway?.(this.awaySince)
  }

  private tell(why: string, line: string): void {
    const reason = this.reasons.has(why) || this.reasons.size < REASONS_MAX ? why : ''
    const told = this.reasons.get(reason) ?? seldom((text) => this.options.log('error', text), this.nowMs)
    this.reasons.set(reason, told)
    told(line)
  }
}
