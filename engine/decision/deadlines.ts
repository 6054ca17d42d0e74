/**
 * Requests whose hits are in flight, until their deadlines: then they are answered without the counts they still lack.
 *
 *     call, grpc-timeout 20 ms ──► hits sent ─────────── 10 ms ──► policies answer what is missing      20 ms: the caller gives up
 *                                                  reply ──► counted, if it comes before
 *
 * The deadline is the earlier of DECISION_TIMEOUT and the caller's own less a margin. One timer for all of them; replies that wait in
 * a socket when it fires are read first. A reply that comes later is dropped: the hits may have been counted, nothing is sent again.
 * Times are those of performance.now(), so a system clock that is set neither delays nor hastens an answer.
 */
import type { DecisionCallback } from './rate-limiter.ts'
import type { RequestBatch } from './request-batch.ts'

/**
 * Of a caller's timeout, left for the answer to reach it: half, at most this. Envoy's timers fire up to 3 ms early, and a thread that has
 * work waits for a core: of some 140 calls whose 20 ms ran when Redis stopped, 25 were answered too late with a quarter, 2 with two
 * fifths, none with half (test/faults/envoy-outage.ts, two cores). With at most 5 ms, so were 40 % of the calls of a busy machine whose
 * timeout was 200 ms (test/faults/outage.ts).
 */
const MARGIN_MS_MAX = 50
const MARGIN_SHARE = 0.5

const TIMER_MS_MAX = 2 ** 31 - 1 // the longest timer of Node

export class Deadlines {
  private readonly timeoutMs: number
  private readonly onDue: (requests: RequestBatch, request: number) => void
  private readonly onLate: () => void
  private readonly batches = new Set<RequestBatch>() // with a deadline that has not passed
  private timer: NodeJS.Timeout | undefined
  private timerMs = Number.POSITIVE_INFINITY

  /**
   * `timeoutMs`: DECISION_TIMEOUT, 0 = none. `onDue` answers a request; it must set its callback to null. `onLate` is called after
   * those that were due together.
   */
  constructor(
    timeoutMs: number,
    onDue: (requests: RequestBatch, request: number) => void,
    onLate: () => void,
  ) {
    this.timeoutMs = timeoutMs
    this.onDue = onDue
    this.onLate = onLate
  }

  /** Sets the deadline of a request whose hits will be sent. */
  add(requests: RequestBatch, request: number, { deadlineMs: callerMs }: DecisionCallback): void {
    if (this.timeoutMs === 0 && (callerMs === undefined || callerMs === Number.POSITIVE_INFINITY)) {
      requests.deadlinesMs[request] = Number.POSITIVE_INFINITY
      return
    }
    const nowMs = performance.now()
    let dueMs = this.timeoutMs === 0 ? Number.POSITIVE_INFINITY : nowMs + this.timeoutMs
    if (callerMs !== undefined) {
      const margin = Math.min((callerMs - nowMs) * MARGIN_SHARE, MARGIN_MS_MAX)
      dueMs = Math.min(dueMs, callerMs - margin)
    }
    requests.deadlinesMs[request] = dueMs
    if (dueMs < requests.nextDeadlineMs) requests.nextDeadlineMs = dueMs
    this.batches.add(requests)
    if (dueMs < this.timerMs) this.start(dueMs, nowMs)
  }

  /** Every request of the batch is answered. */
  remove(requests: RequestBatch): void {
    if (requests.nextDeadlineMs !== Number.POSITIVE_INFINITY) this.batches.delete(requests)
  }

  /** The requests of a batch that are not answered are in another now. */
  replace(former: RequestBatch, requests: RequestBatch): void {
    this.batches.delete(former)
    if (requests.nextDeadlineMs !== Number.POSITIVE_INFINITY) this.batches.add(requests)
  }

  private start(dueMs: number, nowMs: number): void {
    clearTimeout(this.timer)
    this.timerMs = dueMs
    const ms = Math.min(Math.max(Math.ceil(dueMs - nowMs), 1), TIMER_MS_MAX) // timers drop fractions
    this.timer = setTimeout(() => setImmediate(this.answer), ms).unref()
  }

  private readonly answer = () => {
    const nowMs = performance.now()
    let nextMs = Number.POSITIVE_INFINITY
    let hasLate = false
    this.timer = undefined
    this.timerMs = Number.POSITIVE_INFINITY
    for (const requests of this.batches) {
      if (requests.nextDeadlineMs <= nowMs && this.answerDue(requests, nowMs)) hasLate = true
      if (requests.nextDeadlineMs === Number.POSITIVE_INFINITY) this.batches.delete(requests)
      nextMs = Math.min(nextMs, requests.nextDeadlineMs)
    }
    if (nextMs < this.timerMs) this.start(nextMs, nowMs)
    if (hasLate) this.onLate()
  }

  /** Whether any was. */
  private answerDue(requests: RequestBatch, nowMs: number): boolean {
    let hasLate = false
    let nextMs = Number.POSITIVE_INFINITY
    for (let request = 0; request < requests.requestsCount; request++) {
      if (requests.callbacks[request] === null) continue
      const dueMs = requests.deadlinesMs[request]
      if (dueMs <= nowMs) {
        this.onDue(requests, request)
        hasLate = true
      } else nextMs = Math.min(nextMs, dueMs)
    }
    requests.nextDeadlineMs = nextMs
    return hasLate
  }
}
