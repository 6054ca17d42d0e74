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

const LEFT_OUT = ' more were left out)'

/** Undoes what a limited log added to a line. */
export function splitLeftOut(line: string): { text: string; leftOutCount: number } {
  const start = line.endsWith(LEFT_OUT) ? line.lastIndexOf(' (') : -1
  const count = start < 0 ? Number.NaN : Number(line.slice(start + 2, -LEFT_OUT.length))
  return Number.isSafeInteger(count)
    ? { text: line.slice(0, start), leftOutCount: count }
    : { text: line, leftOutCount: 0 }
}

/** A function is called only if its line is written. */
export type LogLine = string | (() => string)

/** Wraps `write` so that at most `linesMax` lines pass in `windowMs`. `nowMs` is for tests. */
export function rateLimitedLog(
  write: (line: string) => void,
  linesMax: number,
  windowMs = SECOND_MS,
  nowMs: () => number = Date.now,
): (line: LogLine) => void {
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
    const text = typeof line === 'string' ? line : line()
    write(leftOutCount === 0 ? text : `${text} (${leftOutCount}${LEFT_OUT}`)
    leftOutCount = 0
  }
}

/** For a lasting failure: the first line at once, then one per minute. */
export function logOncePerMinute(
  write: (line: string) => void,
  nowMs?: () => number,
): (line: LogLine) => void {
  return rateLimitedLog(write, 1, MINUTE_MS, nowMs)
}

/** One line per `windowMs` for each kind of failure, so that a frequent one does not hide the others. */
export class RateLimitedLogByKind {
  private readonly write: (line: string) => void
  private readonly kindsMax: number
  private readonly windowMs: number
  private readonly nowMs: (() => number) | undefined
  private readonly logs = new Map<string, (line: LogLine) => void>()

  /** Beyond `kindsMax`, all further kinds count as one. */
  constructor(write: (line: string) => void, kindsMax: number, windowMs: number, nowMs?: () => number) {
    this.write = write
    this.kindsMax = kindsMax
    this.windowMs = windowMs
    this.nowMs = nowMs
  }

  log(kind: string, line: LogLine): void {
    const key = this.logs.has(kind) || this.logs.size < this.kindsMax ? kind : OTHER_KINDS
    let log = this.logs.get(key)
    if (log === undefined) {
      log = rateLimitedLog(this.write, 1, this.windowMs, this.nowMs)
      this.logs.set(key, log)
    }
    log(line)
  }

  /** The failures are over: the next line of each kind is written. */
  clear(): void {
    this.logs.clear()
  }
}

const OTHER_KINDS = ''
