/**
 * What the debug port and the threads it looks at say to each other. Threads are not known to anybody in a list: whoever
 * listens on QUESTIONS takes part, the monitor's threads too.
 *
 *     debug port (main)                       a thread
 *       call ───── QUESTIONS ──────────────►    every one
 *            ◄──── its own channel ─── here
 *       begin ─────────────────────────────►    this one starts to measure
 *            ◄──────────────────────── begun    the next one's turn
 *       end ───────────────────────────────►    this one
 *            ◄───────── ended, or failed        what was found; the next one's turn
 *       cancel ────────────────────────────►    every one stops, and says nothing
 *
 * One after the other, since starting V8's CPU profiler takes a thread some 20 ms, and seven at once on two cores took each
 * of them 150 ms, in which it served nobody.
 */

export const REQUESTS_CHANNEL = 'sluice.inspection'

/** Each inspection has a channel of its own for answers: other threads need not hear them. */
export function responseChannelName(id: string): string {
  return `${REQUESTS_CHANNEL}.${id}`
}

/** The name of a thread of the serve pool. */
export function workerThread(index: number): string {
  return `worker ${index}`
}

/** What is measured, and what `ended` brings of it. */
export interface Findings {
  cpu: Uint8Array // a profile in pprof's format, not compressed
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

/** How a thread is. */
export interface ThreadStats {
  uptimeSec: number
  delayMs: { min: number; mean: number; p99: number; max: number } // of the event loop, beyond what was asked for
  busyShare: number // 0 to 1 of the time
  heapUsedBytes: number
  heapTotalBytes: number
  externalBytes: number // memory outside the heap that objects of it stand for
  facts: Diagnostic[]
}

/** One line of what only that thread knows, like its connections. */
export type Diagnostic = readonly [name: string, text: string]
