/**
 * Is our own network there? (spec 6.5) Three large addresses are asked once a minute; when fewer than two answer, what fails
 * in that minute and the next says nothing about a site.
 *
 *     every minute, and ─► CONNECTIVITY_CHECK_URLS, all at once ─► any answer at all counts ─► failedMinutes ─► judge(probe)
 *     on demand            one check at a time
 *
 * A check speaks for the minute it began in. A failure is settled when that check has ended; until then `judge` may still
 * change its mind. A detection does not wait for the minute's check: it asks for one that begins after its failure.
 */
import type { Egress } from '../egress/egress.ts'
import type { Probe } from '../facts.ts'
import { areAnswering, reclassify, recordConnectivity, toMinute } from '../scoring/outcome.ts'

const EVERY_MS = 60_000
const CHECK_MS = 10_000 // a large address that is silent for longer is as good as gone

export interface ConnectivityCheckOptions {
  urls: readonly string[] // none: every failure is the site's
  egress: Pick<Egress, 'visit'>
  nowSec: () => number
  onChange: (isAnswering: boolean) => void // told each change, once
  onCheck: () => void // a check has ended: more is settled than before
}

export class ConnectivityCheck {
  private readonly options: ConnectivityCheckOptions
  private failedMinutes: number[] = []
  private checkedMinute = Number.NEGATIVE_INFINITY // in which the last check that has ended began
  private timer: NodeJS.Timeout | null = null
  private running: Promise<boolean> | null = null
  private next: Promise<boolean> | null = null
  private giveUp = new AbortController() // of the check under way
  private isClosed = false
  isAnswering = true // by the last check

  constructor(options: ConnectivityCheckOptions) {
    this.options = options
  }

  /** While there is anything to probe; whoever looks at nothing asks nobody but on demand. */
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

  /** Whether `judge` has said its last word on this probe. It does within a minute and a check of the probe's end. */
  isSettled(probe: Probe): boolean {
    const { urls, nowSec } = this.options
    if (urls.length === 0 || this.evaluate(probe).outcome !== 'down') return true
    const minute = toMinute(probe.atSec)
    const isAhead = minute > toMinute(nowSec()) // the clock was set back, and its minute may be hours away
    return minute <= this.checkedMinute || isAhead
  }

  /**
   * A check that begins from now on: at once, or when the one under way has ended, shared by all who ask meanwhile. Never
   * rejects; answers within 20 s. False: our own network is not there.
   */
  check(): Promise<boolean> {
    if (this.options.urls.length === 0) return Promise.resolve(true)
    if (!this.running) return this.begin()
    this.next ??= this.running.then(() => {
      this.next = null
      return this.running ?? this.begin() // who heard of the end before us may have begun it
    })
    return this.next
  }

  /** Gives up the check under way, which then says nothing. */
  close(): void {
    this.isClosed = true
    this.isNeeded = false
    this.giveUp.abort()
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
    const beganSec = nowSec()
    const answers = await this.ask()
    if (this.isClosed) return true // what was given up says nothing
    const isAnswering = areAnswering(answers)
    this.failedMinutes = recordConnectivity(this.failedMinutes, beganSec, answers)
    this.checkedMinute = toMinute(beganSec)
    if (isAnswering !== this.isAnswering) onChange(isAnswering)
    this.isAnswering = isAnswering
    onCheck()
    return isAnswering
  }

  /** A controller per check: what is joined to a signal that lives as long as the prober is never quite forgotten. */
  private async ask(): Promise<boolean[]> {
    const { urls, egress } = this.options
    this.giveUp = new AbortController()
    const { signal } = this.giveUp
    const timer = setTimeout(() => this.giveUp.abort(), CHECK_MS)
    const ask = { purpose: 'catalogue', redirects: 'none', signal } as const
    const visits = await Promise.all(urls.map((url) => egress.visit({ url, ...ask })))
    clearTimeout(timer)
    return visits.map(({ status }) => status !== null)
  }
}
