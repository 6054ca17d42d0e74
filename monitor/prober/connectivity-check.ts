/**
 * Does this host have network? (spec 6.5) CONNECTIVITY_CHECK_URLS are requested once a minute; when fewer than two respond, failures
 * in that minute and the next are no evidence about a site.
 *
 *     every minute, and ─► all URLs at once ─► any response counts ─► failedMinutes ─► evaluate(probe)
 *     on demand            one check at a time
 *
 * A check applies to the minute it began in. A failure is settled once that check has ended; until then `evaluate` may
 * change its result. A detection does not wait for that: it requests a check that begins after its failure.
 */
import type { Egress } from '../egress/egress.ts'
import type { Probe } from '../facts.ts'
import { areAnswering, reclassify, recordConnectivity, toMinute } from '../scoring/outcome.ts'

const EVERY_MS = 60_000
const CHECK_MS = 10_000 // slower responses count as none

export interface ConnectivityCheckOptions {
  urls: readonly string[] // none: every failure counts
  egress: Pick<Egress, 'visit'>
  nowSec: () => number
  onChange: (isAnswering: boolean) => void // called once per change
  onCheck: () => void // a check has ended: more may be settled than before
}

export class ConnectivityCheck {
  private readonly options: ConnectivityCheckOptions
  private failedMinutes: number[] = []
  private checkedMinute = Number.NEGATIVE_INFINITY // in which the last finished check began
  private timer: NodeJS.Timeout | null = null
  private running: Promise<boolean> | null = null
  private next: Promise<boolean> | null = null
  private abort = new AbortController() // aborts the current check
  private isClosed = false
  isAnswering = true // by the last check

  constructor(options: ConnectivityCheckOptions) {
    this.options = options
  }

  /** Checks run every minute while there are sites to probe, otherwise on demand only. */
  set isNeeded(isNeeded: boolean) {
    if (!isNeeded && this.timer) {
      clearInterval(this.timer)
      this.timer = null
    }
    if (!isNeeded || this.timer || this.options.urls.length === 0) return
    this.timer = setInterval(() => void this.check(), EVERY_MS)
    void this.check()
  }

  evaluate(probe: Probe): Probe {
    return reclassify(probe, this.failedMinutes)
  }

  /** Whether the result of `evaluate` is final, which it is one minute and one check after the probe at the latest. */
  isSettled(probe: Probe): boolean {
    const { urls, nowSec } = this.options
    if (urls.length === 0 || this.evaluate(probe).outcome !== 'down') return true
    const minute = toMinute(probe.atSec)
    const isAhead = minute > toMinute(nowSec()) // the clock was set back; that minute may be hours away
    return minute <= this.checkedMinute || isAhead
  }

  /**
   * Runs a check that begins now or, while one is running, right after it; concurrent calls share it. Never rejects;
   * resolves within 20 s. False: this host has no network.
   */
  check(): Promise<boolean> {
    if (this.options.urls.length === 0) return Promise.resolve(true)
    if (!this.running) return this.begin()
    this.next ??= this.running.then(() => {
      this.next = null
      return this.running ?? this.begin() // another caller may have started it
    })
    return this.next
  }

  /** Aborts the current check, whose result is then ignored. */
  close(): void {
    this.isClosed = true
    this.isNeeded = false
    this.abort.abort()
  }

  private begin(): Promise<boolean> {
    if (this.isClosed) return Promise.resolve(true)
    this.running = this.run().finally(() => {
      this.running = null
    })
    return this.running
  }

  private async run(): Promise<boolean> {
    const { nowSec, onChange, onCheck } = this.options
    const startedSec = nowSec()
    const results = await this.visitAll()
    if (this.isClosed) return true // aborted: no result
    const isAnswering = areAnswering(results)
    this.failedMinutes = recordConnectivity(this.failedMinutes, startedSec, results)
    this.checkedMinute = toMinute(startedSec)
    if (isAnswering !== this.isAnswering) onChange(isAnswering)
    this.isAnswering = isAnswering
    onCheck()
    return isAnswering
  }

  /** One controller per check: listeners on a signal that lives as long as the prober would accumulate. */
  private async visitAll(): Promise<boolean[]> {
    const { urls, egress } = this.options
    this.abort = new AbortController()
    const { signal } = this.abort
    const timer = setTimeout(() => this.abort.abort(), CHECK_MS)
    const options = { purpose: 'catalogue', redirects: 'none', signal } as const
    const visits = await Promise.all(urls.map((url) => egress.visit({ url, ...options })))
    clearTimeout(timer)
    return visits.map(({ status }) => status !== null)
  }
}
