/**
 * Log lines that all workers repeat during an outage, bounded per process: the first LINES_FIRST of a text are written, then at most one
 * per second with the number of repetitions. Other lines are never delayed by them.
 *
 *     error: redis a:6379: no connection      three times, then
 *     error: redis a:6379: no connection (4812 times in the last second)
 *
 * Workers have limits of their own (rate-limited-log.ts); the lines that those left out are counted here.
 */
import { splitLeftOut } from './rate-limited-log.ts'

const LINES_FIRST = 3
const SECOND_MS = 1_000
const QUIET_SECONDS = 10 // a text that was not repeated for this long is new again
const TEXTS_MAX = 256 // the oldest one is forgotten

interface Repeated {
  writtenCount: number
  leftOutCount: number // since the last second
  quietSeconds: number
  write: (line: string) => void // of its last line
}

export class RepeatedLines {
  private readonly texts = new Map<string, Repeated>()
  private readonly schedule: (run: () => void) => () => void
  private cancel: (() => void) | null = null

  /** `schedule` calls `run` after a second, unless what it returns is called before; for tests. */
  constructor(schedule: (run: () => void) => () => void = inOneSecond) {
    this.schedule = schedule
  }

  /** Calls `write` with the line, now or after at most a second with its repetitions. */
  log(line: string, write: (line: string) => void): void {
    const { text, leftOutCount } = splitLeftOut(line)
    let known = this.texts.get(text)
    if (known === undefined) {
      if (this.texts.size >= TEXTS_MAX) this.forgetOldest()
      known = { writtenCount: 0, leftOutCount: 0, quietSeconds: 0, write }
      this.texts.set(text, known)
    }
    known.quietSeconds = 0
    known.write = write
    this.cancel ??= this.schedule(() => this.onSecond())
    if (known.writtenCount < LINES_FIRST) {
      known.writtenCount++
      write(line)
    } else known.leftOutCount += 1 + leftOutCount
  }

  /** Writes what was left out. */
  close(): void {
    this.cancel?.()
    this.cancel = null
    for (const [text, known] of this.texts) writeLeftOut(text, known)
    this.texts.clear()
  }

  private forgetOldest(): void {
    const [[text, known]] = this.texts
    writeLeftOut(text, known)
    this.texts.delete(text)
  }

  private onSecond(): void {
    for (const [text, known] of this.texts) {
      writeLeftOut(text, known)
      if (++known.quietSeconds > QUIET_SECONDS) this.texts.delete(text)
    }
    this.cancel = this.texts.size === 0 ? null : this.schedule(() => this.onSecond())
  }
}

function writeLeftOut(text: string, known: Repeated): void {
  if (known.leftOutCount > 0) known.write(`${text} (${known.leftOutCount} times in the last second)`)
  known.leftOutCount = 0
}

function inOneSecond(run: () => void): () => void {
  const timer = setTimeout(run, SECOND_MS).unref()
  return () => clearTimeout(timer)
}
