/**
 * Writes a flush as lines in a format: what totals have grown by since the last flush.
 *
 *     total 17, sent 12 ──► `name:5|c` ── queued ──► sent 17
 *                                      └─ queue full ──► sent 12: the next flush sends the rest
 *
 * A gauge is sent each time. A timer is one line per distinct millisecond, not per decision, with a sample rate that makes the
 * peer count it that many times. Lines are made in small portions, and a flush larger than the queue waits for the peer as
 * long as it makes progress.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ReconnectingWriter, Traffic } from './reconnecting-writer.ts'
import { NAMES_MAX, type Sink, type Snapshot, type Timer } from './sink.ts'

const PORTION = 2_000 // names per turn of the event loop: about a millisecond
const ROOM_MS = 1_000 // wait for space in a full queue; then the rest of the flush is refused
export const SAMPLES_MAX = 500_000 // in one line of a timer; the rate of a million would need an exponent

/** The constant parts of every line of a name. */
export interface Head {
  name: string
  tags: string // after the value
}

export interface LineFormat {
  head(name: string): Head
  counter(head: Head, delta: number): string
  gauge(head: Head, value: number): string
  /** `samples` measurements of the same value; 1 to SAMPLES_MAX. */
  timer(head: Head, ms: number, samples: number): string
  /** Lines at the end of a flush. */
  end?(sent: SentTotals): Iterable<string>
}

/** Totals of a sink since the start. */
export interface SentTotals {
  counters: number // queued values, not lines: a timer line counts as its samples
  gauges: number
  timed: number
  refused: number
  sent: Traffic
  lost: Traffic
}

/** A known name and what has been sent of it. */
interface SeriesState {
  head: Head
  sent: number
  sentByMs: Map<number, number> | null // of a timer
}

export class LineSink implements Sink {
  private readonly format: LineFormat
  private readonly writer: ReconnectingWriter
  private readonly states = new Map<string, SeriesState>()
  private visitedCount = 0
  private readonly sent: SentTotals
  private isStuck = false // in this flush

  constructor(format: LineFormat, writer: ReconnectingWriter) {
    this.format = format
    this.writer = writer
    this.sent = { counters: 0, gauges: 0, timed: 0, refused: 0, sent: writer.sent, lost: writer.lost }
  }

  get dropped(): number {
    return this.sent.refused + this.writer.lostLines
  }

  start(): void {
    this.writer.start()
  }

  async flush({ counters, gauges, timers }: Snapshot): Promise<void> {
    this.isStuck = false
    for (const [name, total] of counters) {
      const known = this.getState(name)
      if (known !== null && total > known.sent) {
        const line = this.format.counter(known.head, total - known.sent)
        if (this.writer.offer(line) || (await this.sendWhenWritable(line))) {
          known.sent = total
          this.sent.counters++
        }
      }
      if (++this.visitedCount % PORTION === 0) await nextTurn()
    }
    for (const [name, value] of gauges) {
      const known = this.getState(name)
      if (known === null || !Number.isFinite(value)) continue
      const line = this.format.gauge(known.head, value)
      if (this.writer.offer(line) || (await this.sendWhenWritable(line))) this.sent.gauges++
    }
    for (const timer of timers) await this.send(timer)
    for (const line of this.format.end?.(this.sent) ?? []) this.writer.offer(line)
    this.writer.push()
  }

  close(): Promise<void> {
    return this.writer.close()
  }

  private async send({ name, counts }: Timer): Promise<void> {
    const known = this.getState(name)
    if (known === null) return
    known.sentByMs ??= new Map()
    for (const [ms, count] of counts) {
      let sent = known.sentByMs.get(ms) ?? 0
      while (sent < count) {
        const samples = Math.min(count - sent, SAMPLES_MAX)
        const line = this.format.timer(known.head, ms, samples)
        if (!this.writer.offer(line) && !(await this.sendWhenWritable(line))) break
        sent += samples
        this.sent.timed += samples
      }
      known.sentByMs.set(ms, sent)
      if (++this.visitedCount % PORTION === 0) await nextTurn()
    }
  }

  /** The state of a name, created on first use; null beyond NAMES_MAX. */
  private getState(name: string): SeriesState | null {
    const known = this.states.get(name)
    if (known !== undefined) return known
    if (this.states.size >= NAMES_MAX) {
      this.sent.refused++
      return null
    }
    const made = { head: this.format.head(name), sent: 0, sentByMs: null }
    this.states.set(name, made)
    return made
  }

  /** Waits for space; after one timeout the rest of the flush does not wait. */
  private async sendWhenWritable(line: string): Promise<boolean> {
    while (!this.isStuck) {
      if (!(await this.writer.room(ROOM_MS))) this.isStuck = true
      else if (this.writer.offer(line)) return true
    }
    this.sent.refused++
    return false
  }
}

/**
 * A sample rate from which peers compute `samples`, whether they round 1 / rate or truncate it; it is never above 1 / samples.
 */
export function rateText(samples: number): string {
  let rate = 1 / samples
  while (1 / rate < samples) rate *= 1 - Number.EPSILON
  return String(rate)
}

/** A plain decimal, since not all peers parse exponents. */
export function plain(value: number): string {
  const text = String(value)
  return text.includes('e') ? value.toFixed(6) : text
}
