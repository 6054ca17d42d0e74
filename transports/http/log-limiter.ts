/**
 * A log line per failed request must not become the load itself: at most some lines a second pass, and the
 * first line of a later second says how many were left out.
 *
 *     error: a · error: b · (398 left out) · ···one second··· · error: z (398 more were left out)
 *
 * Gives up: the tail. What is left out in the last second before silence is told with the next line, whenever
 * it comes.
 */
const WINDOW_MS = 1_000

/** Wraps `write` so that at most `linesPerSec` lines pass in one second. `nowMs` is for tests. */
export function limitLines(
  write: (line: string) => void,
  linesPerSec: number,
  nowMs: () => number = Date.now,
): (line: string) => void {
  let windowStartMs = Number.NEGATIVE_INFINITY
  let writtenCount = 0
  let leftOutCount = 0
  return (line) => {
    const now = nowMs()
    if (now - windowStartMs >= WINDOW_MS || now < windowStartMs) {
      windowStartMs = now // a clock set back starts a new second, too
      writtenCount = 0
    }
    if (writtenCount >= linesPerSec) {
      leftOutCount++
      return
    }
    writtenCount++
    write(leftOutCount === 0 ? line : `${line} (${leftOutCount} more were left out)`)
    leftOutCount = 0
  }
}
