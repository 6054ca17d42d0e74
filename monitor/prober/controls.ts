/**
 * Is our own network there? (spec 6.5) Three large addresses are asked once a minute; when fewer than two answer, what fails
 * in that minute and the next says nothing about a site.
 *
 *     every minute ──► CONTROL_URLS, all at once ──► any answer at all counts ──► failedMinutes ──► judge(probe)
 */
import type { Egress } from '../egress/egress.ts'
import type { Probe } from '../facts.ts'
import { isFailed, judge, noteControls } from '../score/outcome.ts'

const EVERY_MS = 60_000

export class Controls {
  private readonly urls: readonly string[]
  private readonly egress: Pick<Egress, 'visit'>
  private readonly nowSec: () => number
  private readonly onChange: (isAnswering: boolean) => void
  private failedMinutes: number[] = []
  private timer: NodeJS.Timeout | null = null
  private isChecking = false
  isAnswering = true

  /** No `urls`: every failure is the site's. `onChange` is told each change, once. */
  constructor(
    urls: readonly string[],
    egress: Pick<Egress, 'visit'>,
    nowSec: () => number,
    onChange: (isAnswering: boolean) => void,
  ) {
    this.urls = urls
    this.egress = egress
    this.nowSec = nowSec
    this.onChange = onChange
  }

  /** While there is anything to probe; whoever looks at nothing asks nobody. */
  set isNeeded(isNeeded: boolean) {
    if (!isNeeded && this.timer) {
      clearInterval(this.timer)
      this.timer = null
    }
    if (!isNeeded || this.timer || this.urls.length === 0) return
    this.timer = setInterval(() => void this.check(), EVERY_MS)
    void this.check()
  }

  judge(probe: Probe): Probe {
    return judge(probe, this.failedMinutes)
  }

  async check(): Promise<void> {
    if (this.isChecking) return
    this.isChecking = true
    const visits = this.urls.map((url) => this.egress.visit({ url, purpose: 'catalogue', redirects: 'none' }))
    const answers = (await Promise.all(visits)).map(({ status }) => status !== null)
    this.isChecking = false
    const nowSec = this.nowSec()
    this.failedMinutes = noteControls(this.failedMinutes, nowSec, answers)
    const isAnswering = !isFailed(this.failedMinutes, nowSec)
    if (isAnswering !== this.isAnswering) this.onChange(isAnswering)
    this.isAnswering = isAnswering
  }
}
