/**
 * Looking for a reply instead of sleeping until it comes, for a few microseconds and only where that pays.
 *
 *     hits sent ─► look, look, look … reply          Redis finds us awake: waking a core costs it 7 of its 24 us
 *                  └── longestMs without one: sleep, as everybody does
 *
 * Pays when Redis is near and calls come one at a time, or nearly so. Where most overlap, batches save more than looking
 * could, so nobody looks; and when fewer than half of the looks end with the reply (Redis is far, or shares our core), it
 * is left alone for PAUSE_MS. One look is one turn of the event loop, 1.3 us, so everything else is served meanwhile.
 */
const RECENT = 64 // trips and looks whose shares count
const OVERLAP_MAX = 0.5 // of recent trips
const REPLIES_MIN = 0.5 // of looks
const PAUSE_MS = 1_000

export interface SpinClock {
  nowMs: () => number
  soon: (turn: () => void) => void
}

export class Spin {
  private readonly longestMs: number
  private readonly clock: SpinClock
  private readonly overlaps = new Share(1)
  private readonly replies = new Share(1)
  private endMs = 0 // of the look that is running
  private isLooking = false
  private isAwaited = false // the reply has not come
  private pauseEndMs = 0

  /** `longestMs` 0: never. */
  constructor(longestMs: number, clock: SpinClock = { nowMs: () => performance.now(), soon: setImmediate }) {
    this.longestMs = longestMs
    this.clock = clock
  }

  /** Hits were sent. `isAlone`: of one request, with nothing else on its way. A look that is running goes on for them. */
  sent(isAlone: boolean): void {
    if (this.longestMs === 0) return
    this.overlaps.add(!isAlone)
    this.isAwaited = true
    if (this.overlaps.share > OVERLAP_MAX) return
    const nowMs = this.clock.nowMs()
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
    if (!this.isAwaited) this.ended(true)
    else if (this.clock.nowMs() >= this.endMs) this.ended(false)
    else this.clock.soon(this.look)
  }

  private ended(hasReply: boolean): void {
    this.isLooking = false
    this.replies.add(hasReply)
    if (this.replies.share >= REPLIES_MIN) return
    this.pauseEndMs = this.clock.nowMs() + PAUSE_MS
    this.replies.share = 1
  }
}

/** What share of the last ones was so, older ones weighing less. */
class Share {
  share: number

  constructor(share: number) {
    this.share = share
  }

  add(isSo: boolean): void {
    this.share += ((isSo ? 1 : 0) - this.share) / RECENT
  }
}
