/**
 * Looking for a reply instead of sleeping until it comes, for a few microseconds and only where that pays.
 *
 *     hits sent ─► look, look, look … reply          Redis finds us awake: waking a core costs it 7 of its 24 us
 *                  └── longestMs without one: sleep, as everybody does
 *
 * Pays when Redis is near and hits go out one request at a time, with pauses. Where they come so densely that looking
 * would take more than half of the time, or in batches, nobody looks; and when fewer than half of the looks end with the
 * reply (Redis is far, or shares our core), it is left alone for PAUSE_MS. One look is one turn of the event loop, 1.3 us,
 * so everything else is served meanwhile.
 */
const RECENT = 64 // trips and looks whose means count
const LOOKING_SHARE_MAX = 0.5 // of the time between two trips
const REQUESTS_MAX = 2 // per trip
const GAP_MS_MAX = 1 // a longer one says no more
const REPLIES_MIN = 0.5 // of looks
const PAUSE_MS = 1_000

export interface SpinClock {
  nowMs: () => number
  soon: (turn: () => void) => void
}

export class Spin {
  private readonly longestMs: number
  private readonly clock: SpinClock
  private readonly gapMs = new Mean(0)
  private readonly requests = new Mean(REQUESTS_MAX)
  private readonly replies = new Mean(1)
  private sentMs = 0 // the last ones
  private endMs = 0 // of the look that is running
  private isLooking = false
  private isAwaited = false // a reply has not come
  private pauseEndMs = 0

  /** `longestMs` 0: never. */
  constructor(longestMs: number, clock: SpinClock = { nowMs: () => performance.now(), soon: setImmediate }) {
    this.longestMs = longestMs
    this.clock = clock
  }

  /** The hits of so many requests were sent. A look that is running goes on for them. */
  sent(requestsCount: number): void {
    if (this.longestMs === 0) return
    const nowMs = this.clock.nowMs()
    this.gapMs.add(Math.min(nowMs - this.sentMs, GAP_MS_MAX))
    this.requests.add(requestsCount)
    this.sentMs = nowMs
    this.isAwaited = true
    if (this.gapMs.mean * LOOKING_SHARE_MAX < this.longestMs || this.requests.mean > REQUESTS_MAX) return
    if (nowMs < this.pauseEndMs) return
    this.endMs = nowMs + this.longestMs
    if (this.isLooking) return
    this.isLooking = true
    this.clock.soon(this.look)
  }

  /** Nothing is on its way any more. */
  answered(): void {
    this.isAwaited = false
  }

  private readonly look = () => {
    if (!this.isAwaited) this.ended(1)
    else if (this.clock.nowMs() >= this.endMs) this.ended(0)
    else this.clock.soon(this.look)
  }

  private ended(repliesCount: 0 | 1): void {
    this.isLooking = false
    this.replies.add(repliesCount)
    if (this.replies.mean >= REPLIES_MIN) return
    this.pauseEndMs = this.clock.nowMs() + PAUSE_MS
    this.replies.mean = 1
  }
}

/** Of the last ones, older ones weighing less. */
class Mean {
  mean: number

  constructor(mean: number) {
    this.mean = mean
  }

  add(value: number): void {
    this.mean += (value - this.mean) / RECENT
  }
}
