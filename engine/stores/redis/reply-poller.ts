/**
 * How a thread waits for Redis replies, chosen by the rate of requests. A thread that sleeps in the kernel has to be woken
 * by the other side, which takes Redis 7 of the 24 us of a round trip.
 *
 *     requests apart   poll the socket for some microseconds, then sleep        (REDIS_BUSY_POLL)
 *     requests close   block the event loop, then handle all replies in a turn  (REDIS_REPLY_COALESCE_DELAY, off by default)
 *     batches          sleep: the cost of waking is shared already
 *
 * A poll is one turn of the event loop (1.3 us), so everything else is served meanwhile. While the event loop is blocked,
 * nothing is; Linux adds about 60 us to the delay. Both measure their effect and disable themselves when they do not help.
 */
import { block } from '../../runtime/block.ts'

const MEAN_SAMPLES = 64 // a moving mean weighs about this many batches or polls
const GAP_MS_MAX = 1 // a longer pause between two batches counts as this one
const REQUESTS_MAX = 2 // mean requests per batch; above, batching shares the cost of waking

export interface ReplyPollerOptions {
  busyPollMs: number // longest poll; 0 = never
  coalesceDelayMs: number // how long the event loop is blocked; 0 = never
}

export interface ReplyPollerClock {
  nowMs: () => number
  defer: (callback: () => void) => void // to the next turn of the event loop
  block: (ms: number) => void // the whole thread
}

const CLOCK: ReplyPollerClock = {
  nowMs: () => performance.now(),
  defer: setImmediate,
  block,
}

export class ReplyPoller {
  private readonly clock: ReplyPollerClock
  private readonly busyPoll: BusyPoll
  private readonly blockingWait: BlockingWait
  private readonly isEnabled: boolean
  private readonly gapMs = new MovingMean(0) // between batches
  private readonly requests = new MovingMean(REQUESTS_MAX) // per batch
  private lastSentMs = 0
  private isReplyPending = false

  constructor({ busyPollMs, coalesceDelayMs }: ReplyPollerOptions, clock = CLOCK) {
    this.clock = clock
    const isReplyPending = () => this.isReplyPending
    this.busyPoll = new BusyPoll(busyPollMs, clock, isReplyPending)
    this.blockingWait = new BlockingWait(coalesceDelayMs, clock, isReplyPending)
    this.isEnabled = busyPollMs > 0 || coalesceDelayMs > 0
  }

  /** Recent mean of requests per batch; null if it is not measured or nothing was sent. */
  get recentRequests(): number | null {
    return this.isEnabled && this.lastSentMs > 0 ? this.requests.mean : null
  }

  /** A batch with the hits of so many requests was sent. */
  onSent(requestsCount: number): void {
    if (!this.isEnabled) return
    const { busyPoll, blockingWait, gapMs, requests } = this
    const nowMs = this.clock.nowMs()
    gapMs.add(Math.min(nowMs - this.lastSentMs, GAP_MS_MAX))
    requests.add(requestsCount)
    this.lastSentMs = nowMs
    this.isReplyPending = true
    const isBatched = requests.mean > REQUESTS_MAX
    const requestGapMs = gapMs.mean / requests.mean
    const isSparse = busyPoll.isWorthwhile(requestGapMs)
    if (isSparse && !isBatched) busyPoll.start(nowMs)
    const isDense = !isSparse && !isBatched && requestGapMs < DENSE_GAP_MS_MAX
    blockingWait.onSent(nowMs, requestsCount, isDense)
  }

  /** Every batch has its replies. */
  onAllReplied(): void {
    this.isReplyPending = false
  }
}

const POLLING_SHARE_MAX = 0.5 // of the time between two requests
const SUCCESS_SHARE_MIN = 0.5 // of polls that end with the reply
const POLL_PAUSE_MS = 1_000

/**
 * Polls for a reply. Worthwhile where Redis is near: when fewer than half of the polls end with the reply (Redis is far, or
 * shares this core), polling pauses for POLL_PAUSE_MS.
 */
class BusyPoll {
  private readonly pollMs: number
  private readonly clock: ReplyPollerClock
  private readonly isReplyPending: () => boolean
  private readonly successes = new MovingMean(1)
  private pollEndMs = 0
  private isPolling = false
  private pauseEndMs = 0

  constructor(pollMs: number, clock: ReplyPollerClock, isReplyPending: () => boolean) {
    this.pollMs = pollMs
    this.clock = clock
    this.isReplyPending = isReplyPending
  }

  /** False where polling would take more than half of the time between two requests. */
  isWorthwhile(gapMs: number): boolean {
    return this.pollMs > 0 && gapMs * POLLING_SHARE_MAX >= this.pollMs
  }

  /** Starts a poll, or extends the running one for these hits. */
  start(nowMs: number): void {
    if (nowMs < this.pauseEndMs) return
    this.pollEndMs = nowMs + this.pollMs
    if (this.isPolling) return
    this.isPolling = true
    this.clock.defer(this.poll)
  }

  private readonly poll = () => {
    if (!this.isReplyPending()) this.end(1)
    else if (this.clock.nowMs() >= this.pollEndMs) this.end(0)
    else this.clock.defer(this.poll)
  }

  private end(repliesCount: 0 | 1): void {
    this.isPolling = false
    this.successes.add(repliesCount)
    if (this.successes.mean >= SUCCESS_SHARE_MIN) return
    this.pauseEndMs = this.clock.nowMs() + POLL_PAUSE_MS
    this.successes.mean = 1
  }
}

const DENSE_GAP_MS_MAX = 0.08 // between requests; with longer gaps a delay seldom collects a second one
const TRIAL_MS = 40 // some 500 requests at that rate, so chance seldom moves their number by more than a tenth
const KEPT_SHARE_MIN = 0.75 // of the requests per second
const ENABLED_MS = 1_000 // after a trial that succeeded
const DISABLED_MS = 5_000 // after one that failed

/**
 * Blocks the event loop after sending. This pays when calls arrive whether or not earlier ones have their responses, as those of a
 * proxy do; callers that wait for each response would call less often. So a trial compares TRIAL_MS without the delay and
 * TRIAL_MS with it, and fails where fewer requests arrive.
 */
class BlockingWait {
  private readonly delayMs: number
  private readonly clock: ReplyPollerClock
  private readonly isReplyPending: () => boolean
  private phase: 'without' | 'with' | 'decided' = 'decided'
  private phaseStartMs = 0
  private phaseEndMs = 0
  private requestsCount = 0 // in this phase
  private requestsPerMsWithout = 0
  private isWorthwhile = false
  private isScheduled = false

  constructor(delayMs: number, clock: ReplyPollerClock, isReplyPending: () => boolean) {
    this.delayMs = delayMs
    this.clock = clock
    this.isReplyPending = isReplyPending
  }

  /** Hits were sent; `isDense`: requests are close enough for a delay. */
  onSent(nowMs: number, requestsCount: number, isDense: boolean): void {
    if (this.delayMs === 0) return
    if (nowMs >= this.phaseEndMs) this.enterNextPhase(nowMs, isDense)
    this.requestsCount += requestsCount
    const isWanted = this.phase === 'with' || (this.phase === 'decided' && this.isWorthwhile && isDense)
    if (!isWanted || this.isScheduled) return
    this.isScheduled = true
    this.clock.defer(this.block) // after what this turn still has to write
  }

  private enterNextPhase(nowMs: number, isDense: boolean): void {
    const requestsPerMs = this.requestsCount / (nowMs - this.phaseStartMs)
    if (this.phase === 'decided') {
      this.isWorthwhile &&= isDense
      if (!isDense) return
      this.enter('without', nowMs, TRIAL_MS)
    } else if (this.phase === 'without') {
      this.requestsPerMsWithout = requestsPerMs
      this.enter('with', nowMs, TRIAL_MS)
    } else {
      this.isWorthwhile = requestsPerMs >= this.requestsPerMsWithout * KEPT_SHARE_MIN
      this.enter('decided', nowMs, this.isWorthwhile ? ENABLED_MS : DISABLED_MS)
    }
  }

  private enter(phase: BlockingWait['phase'], nowMs: number, durationMs: number): void {
    this.phase = phase
    this.phaseStartMs = nowMs
    this.phaseEndMs = nowMs + durationMs
    this.requestsCount = 0
  }

  private readonly block = () => {
    this.isScheduled = false
    if (this.isReplyPending()) this.clock.block(this.delayMs)
  }
}

/** An exponential moving mean. */
class MovingMean {
  mean: number

  constructor(mean: number) {
    this.mean = mean
  }

  add(value: number): void {
    this.mean += (value - this.mean) / MEAN_SAMPLES
  }
}
