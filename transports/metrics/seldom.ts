/**
 * For what goes on failing: the first line at once, then one a minute, which says how many were left out.
 *
 *     connection error · (19 left out) · ···a minute··· · connection error (19 more were left out)
 */
const PAUSE_MS = 60_000

export function seldom(
  write: (line: string) => void,
  nowMs: () => number = () => performance.now(),
): (line: string) => void {
  let writtenMs = Number.NEGATIVE_INFINITY
  let leftOutCount = 0
  return (line) => {
    if (nowMs() - writtenMs < PAUSE_MS) {
      leftOutCount++
      return
    }
    writtenMs = nowMs()
    write(leftOutCount === 0 ? line : `${line} (${leftOutCount} more were left out)`)
    leftOutCount = 0
  }
}
