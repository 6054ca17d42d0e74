/**
 * How a thread waits for Redis, by the pace at which hits go out. Whoever sleeps in the kernel must be woken by the other
 * side, which costs Redis 7 of its 24 us per trip.
 *
 *     with pauses    hits sent ─► look, look, look … reply       for a few microseconds, then sleep as everybody does
 *     closely        hits sent ─► nap ─► replies, next hits      the clock ends it: nobody wakes us, and one turn serves all
 *     in batches     hits sent ─► sleep                          the cost of waking is shared already
 *
 * One look is one turn of the event loop, 1.3 us, so everything else is served meanwhile. During a nap nothing is served.
 * Linux makes a nap about 60 us longer than asked. Both end themselves where they do not pay; see Look and Nap.
 */
const RECENT = 64 // trips and looks whose means count
const GAP_MS_MAX = 1 // between trips; a longer one says no more
const REQUESTS_MAX = 2 // per trip: more are a batch

export interface ReplyPollerOptions {
  spinMs: number // looks so long at most; 0 = never
  napMs: number // 0 = never
}

export interface ReplyPollerClock {
  nowMs: () => number
  soon: (turn: () => void) => void
  sleep: (ms: number) => void // the whole thread
}

const cell = new Int32Array(new SharedArrayBuffer(4)) // nobody writes it

const CLOCK: ReplyPollerClock = {
  nowMs: () => performance.now(),
  soon: setImmediate,
  sleep: (ms) => Atomics.wait(cell, 0, 0, ms),
}

export class ReplyPoller {
  private readonly clock: ReplyPollerClock
  private readonly busyPoll: BusyPoll
  private readonly blockingWait: BlockingWait
  private readonly isOn: boolean
  private readonly gapMs = new Mean(0) // between trips
  private readonly requests = new Mean(REQUESTS_MAX) // per trip
  private sentMs = 0 // the last ones
  private isAwaited = false // a reply has not come

  constructor({ spinMs, napMs }: ReplyPollerOptions, clock = CLOCK) {
    this.clock = clock
    const isAwaited = () => this.isAwaited
    this.busyPoll = new BusyPoll(spinMs, clock, isAwaited)
    this.blockingWait = new BlockingWait(napMs, clock, isAwaited)
    this.isOn = spinMs > 0 || napMs > 0
  }

  /** Requests per trip, lately; null = nobody counts, or there was none. */
  get recentRequests(): number | null {
    return this.isOn && this.sentMs > 0 ? this.requests.mean : null
  }

  /** The hits of so many requests were sent in one trip. */
  sent(requestsCount: number): void {
    if (!this.isOn) return
    const { busyPoll: look, blockingWait: nap, gapMs, requests } = this
    const nowMs = this.clock.nowMs()
    gapMs.add(Math.min(nowMs - this.sentMs, GAP_MS_MAX))
    requests.add(requestsCount)
    this.sentMs = nowMs
    this.isAwaited = true
    const isBatched = requests.mean > REQUESTS_MAX
    const requestGapMs = gapMs.mean / requests.mean
    const isSparse = look.pays(requestGapMs)
    if (isSparse && !isBatched) look.start(nowMs)
    nap.sent(nowMs, requestsCount, !isSparse && !isBatched && requestGapMs < NAP_GAP_MS_MAX)
  }

  /** Nothing is on its way any more. */
  answered(): void {
    this.isAwaited = false
  }
}

const POLLING_SHARE_MAX = 0.5 // of the time between two requests
const REPLIES_MIN = 0.5 // of looks
const PAUSE_MS = 1_000

/**
 * Pays when Redis is near. When fewer than half of the looks end with the reply (Redis is far, or shares our core), it is
 * left alone for PAUSE_MS.
 */
class BusyPoll {
  private readonly longestMs: number
  private readonly clock: ReplyPollerClock
  private readonly isAwaited: () => boolean
  private readonly replies = new Mean(1)
  private endMs = 0 // of the look that is running
  private isPolling = false
  private pauseEndMs = 0

  constructor(longestMs: number, clock: ReplyPollerClock, isAwaited: () => boolean) {
    this.longestMs = longestMs
    this.clock = clock
    this.isAwaited = isAwaited
  }

  /** Not where looking would take more than half of the time between two requests. */
  pays(gapMs: number): boolean {
    return this.longestMs > 0 && gapMs * POLLING_SHARE_MAX >= this.longestMs
  }

  /** A look that is running goes on for these hits. */
  start(nowMs: number): void {
    if (nowMs < this.pauseEndMs) return
    this.endMs = nowMs + this.longestMs
    if (this.isPolling) return
    this.isPolling = true
    this.clock.soon(this.turn)
  }

  private readonly turn = () => {
    if (!this.isAwaited()) this.ended(1)
    else if (this.clock.nowMs() >= this.endMs) this.ended(0)
    else this.clock.soon(this.turn)
  }

  private ended(repliesCount: 0 | 1): void {
    this.isPolling = false
    this.replies.add(repliesCount)
    if (this.replies.mean >= REPLIES_MIN) return
    this.pauseEndMs = this.clock.nowMs() + PAUSE_MS
    this.replies.mean = 1
  }
}

const NAP_GAP_MS_MAX = 0.08 // between requests: where they come more rarely, a nap would seldom find a second one
const TRIAL_MS = 40 // some 500 requests at that pace, so chance seldom moves their number by more than a tenth
const KEPT_SHARE_MIN = 0.75 // of the requests per second
const PAYS_MS = 1_000 // then it is tried again
const PAYS_NOT_MS = 5_000

/**
 * Pays when calls come whether or not earlier ones were answered, as those of a proxy do. Callers that wait for their answer
 * would ask more rarely. So now and then it is tried: TRIAL_MS without naps, TRIAL_MS with; when fewer requests came, none.
 */
class BlockingWait {
  private readonly ms: number
  private readonly clock: ReplyPollerClock
  private readonly isAwaited: () => boolean
  private phase: 'without' | 'with' | 'decided' = 'decided'
  private phaseStartMs = 0
  private phaseEndMs = 0
  private requestsCount = 0 // in this phase
  private perMsWithout = 0
  private pays = false
  private isDue = false

  constructor(ms: number, clock: ReplyPollerClock, isAwaited: () => boolean) {
    this.ms = ms
    this.clock = clock
    this.isAwaited = isAwaited
  }

  /** Hits went out; `isClose`: as they do where naps are of use. */
  sent(nowMs: number, requestsCount: number, isClose: boolean): void {
    if (this.ms === 0) return
    if (nowMs >= this.phaseEndMs) this.nextPhase(nowMs, isClose)
    this.requestsCount += requestsCount
    const isWanted = this.phase === 'with' || (this.phase === 'decided' && this.pays && isClose)
    if (!isWanted || this.isDue) return
    this.isDue = true
    this.clock.soon(this.turn) // after what this turn still has to write
  }

  private nextPhase(nowMs: number, isClose: boolean): void {
    const perMs = this.requestsCount / (nowMs - this.phaseStartMs)
    if (this.phase === 'decided') {
      this.pays &&= isClose
      if (!isClose) return
      this.begin('without', nowMs, TRIAL_MS)
    } else if (this.phase === 'without') {
      this.perMsWithout = perMs
      this.begin('with', nowMs, TRIAL_MS)
    } else {
      this.pays = perMs >= this.perMsWithout * KEPT_SHARE_MIN
      this.begin('decided', nowMs, this.pays ? PAYS_MS : PAYS_NOT_MS)
    }
  }

  private begin(phase: BlockingWait['phase'], nowMs: number, ms: number): void {
    this.phase = phase
    this.phaseStartMs = nowMs
    this.phaseEndMs = nowMs + ms
    this.requestsCount = 0
  }

  private readonly turn = () => {
    this.isDue = false
    if (this.isAwaited()) this.clock.sleep(this.ms)
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
