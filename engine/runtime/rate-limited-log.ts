/**
 * A log line per failure must not become the load itself: at most some lines pass in a window of time, and the first line
 * of a later window says how many were left out.
 *
 *     error: a · error: b · (398 left out) · ···one second··· · error: z (398 more were left out)
 *
 * Gives up: the tail. What is left out in the last window before silence is told with the next line, whenever
 * it comes.
 */
const SECOND_MS = 1_000
const MINUTE_MS = 60_000

/** Wraps `write` so that at most `linesMax` lines pass in `windowMs`. `nowMs` is for tests. */
export function rateLimitedLog(
  write: (line: string) => void,
  linesMax: number,
  windowMs = SECOND_MS,
  nowMs: () => number = Date.now,
): (line: string) => void {
  let windowStartMs = Number.NEGATIVE_INFINITY
  let writtenCount = 0
  let leftOutCount = 0
  return (line) => {
    const now = nowMs()
    if (now - windowStartMs >= windowMs || now < windowStartMs) {
      windowStartMs = now // a clock set back starts a new window, too
      writtenCount = 0
    }
    if (writtenCount >= linesMax) {
      leftOutCount++
      return
    }
    writtenCount++
    write(leftOutCount === 0 ? line : `${line} (${leftOutCount} more were left out)`)
    leftOutCount = 0
  }
}

/** For what goes on failing: the first line at once, then one a minute. */
export function logOncePerMinute(
  write: (line: string) => void,
  nowMs?: () => number,
): (line: string) => void {
  return rateLimitedLog(write, 1, MINUTE_MS, nowMs)
}
