/**
 * Messages between the debug port and the threads it inspects. There is no list of threads: every thread that listens on
 * REQUESTS_CHANNEL takes part, including those of the monitor.
 *
 *     debug port (main)                         a thread
 *       call ───── REQUESTS_CHANNEL ─────────►    all threads
 *            ◄──── response channel ──── here
 *       begin ───────────────────────────────►    one thread starts to measure
 *            ◄────────────────────────── begun    then the next thread
 *       end ─────────────────────────────────►    one thread
 *            ◄─────────── ended, or failed        the result; then the next thread
 *       cancel ──────────────────────────────►    all threads stop, without a response
 *
 * One thread after the other: starting V8's CPU profiler blocks a thread for about 20 ms, and seven at once on two cores
 * blocked each for 150 ms.
 */

export const REQUESTS_CHANNEL = 'sluice.inspection'

/** Each inspection has its own channel for responses, so that other threads do not receive them. */
export function responseChannelName(id: string): string {
  return `${REQUESTS_CHANNEL}.${id}`
}

/** The name of a thread of the serve pool. */
export function workerThread(index: number): string {
  return `worker ${index}`
}

/** The kinds of measurements and their results. */
export interface Findings {
  cpu: Uint8Array // a profile in pprof's format, uncompressed
  heap: Uint8Array // the same
  pulse: ThreadStats
}
export type Kind = keyof Findings

export type InspectionRequest =
  | { id: string; step: 'call' }
  | { id: string; step: 'begin'; thread: string; kind: Kind }
  | { id: string; step: 'end'; thread: string }
  | { id: string; step: 'cancel' }

export type InspectionResponse =
  | { thread: string; step: 'here'; nativeId: number }
  | { thread: string; step: 'begun' }
  | { thread: string; step: 'ended'; found: unknown }
  | { thread: string; step: 'failed'; why: string }

export interface ThreadStats {
  uptimeSec: number
  delayMs: { min: number; mean: number; p99: number; max: number } // of the event loop, beyond the timer's interval
  busyShare: number // 0 to 1 of the time
  heapUsedBytes: number
  heapTotalBytes: number
  externalBytes: number // memory outside the heap that is owned by its objects
  facts: Diagnostic[]
}

/** One line that only the thread itself can report, such as its connections. */
export type Diagnostic = readonly [name: string, text: string]
