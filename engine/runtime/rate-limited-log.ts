/**
 * Limits the log lines of repeated failures: at most a number of lines per window of time; the first line of a later window
 * says how many were left out.
 *
 *     error: a · error: b · (398 left out) · ···one second··· · error: z (398 more were left out)
 *
 * Lines left out of the last window are reported with the next line, whenever that is.
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

/** For a lasting failure: the first line at once, then one per minute. */
export function logOncePerMinute(
  write: (line: string) => void,
  nowMs?: () => number,
): (line: string) => void {
  return rateLimitedLog(write, 1, MINUTE_MS, nowMs)
}
