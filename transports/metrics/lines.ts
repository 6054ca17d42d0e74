/**
 * A flush as lines: what has grown since the last one, by a format, into an outlet.
 *
 *     total 17, told 12 ──► `name:5|c` ── taken ──► told 17
 *                                      └─ no room ──► told 12: the next flush says it all
 *
 * A gauge is told each time. A timer is a line per distinct millisecond and not one per decision, with the rate that makes
 * the peer count it so many times. Lines are made in small portions, and a flush bigger than the queue waits for the
 * peer as long as it moves.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ReconnectingWriter, Traffic } from './reconnecting-writer.ts'
import { NAMES_MAX, type Sink, type Snapshot, type Timer } from './sink.ts'

const PORTION = 2_000 // names looked at before others get a turn: about a millisecond
const ROOM_MS = 1_000 // so long a full queue may stand still
export const SAMPLES_MAX = 500_000 // in one line of a timer; the rate of a million would need an exponent

/** What is the same in every line of a name. */
export interface Head {
  name: string
  tags: string // behind the value
}

export interface LineFormat {
  head(name: string): Head
  counter(head: Head, delta: number): string
  gauge(head: Head, value: number): string
  /** `samples` times the same; 1 to SAMPLES_MAX. */
  timer(head: Head, ms: number, samples: number): string
  /** Closes a flush. */
  end?(sent: SentTotals): Iterable<string>
}

/** What a sink has done since the start. */
export interface SentTotals {
  counters: number // values that were taken, not lines: a line of a timer stands for its samples
  gauges: number
  timed: number
  refused: number
  sent: Traffic
  lost: Traffic
}

/** A name we know, and what the peer has been told. */
interface SeriesState {
  head: Head
  sent: number
  sentOfMs: Map<number, number> | null // of a timer
}

export class LineSink implements Sink {
  private readonly format: LineFormat
  private readonly outlet: ReconnectingWriter
  private readonly states = new Map<string, SeriesState>()
  private visitedCount = 0
  private readonly sent: SentTotals
  private isStuck = false // in this flush

  constructor(format: LineFormat, outlet: ReconnectingWriter) {
    this.format = format
    this.outlet = outlet
    this.sent = { counters: 0, gauges: 0, timed: 0, refused: 0, sent: outlet.sent, lost: outlet.lost }
  }

  get dropped(): number {
    return this.sent.refused + this.outlet.lostLines
  }

  start(): void {
    this.outlet.start()
  }

  async flush({ counters, gauges, timers }: Snapshot): Promise<void> {
    this.isStuck = false
    for (const [name, total] of counters) {
      const known = this.getState(name)
      if (known !== null && total > known.sent) {
        const line = this.format.counter(known.head, total - known.sent)
        if (this.outlet.offer(line) || (await this.sendWhenWritable(line))) {
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
      if (this.outlet.offer(line) || (await this.sendWhenWritable(line))) this.sent.gauges++
    }
    for (const timer of timers) await this.send(timer)
    for (const line of this.format.end?.(this.sent) ?? []) this.outlet.offer(line)
    this.outlet.push()
  }

  close(): Promise<void> {
    return this.outlet.close()
  }

  private async send({ name, counts }: Timer): Promise<void> {
    const known = this.getState(name)
    if (known === null) return
    known.sentOfMs ??= new Map()
    for (const [ms, count] of counts) {
      let sent = known.sentOfMs.get(ms) ?? 0
      while (sent < count) {
        const samples = Math.min(count - sent, SAMPLES_MAX)
        const line = this.format.timer(known.head, ms, samples)
        if (!this.outlet.offer(line) && !(await this.sendWhenWritable(line))) break
        sent += samples
        this.sent.timed += samples
      }
      known.sentOfMs.set(ms, sent)
      if (++this.visitedCount % PORTION === 0) await nextTurn()
    }
  }

  /** A name's record, made at its first sight; null when there are too many. */
  private getState(name: string): SeriesState | null {
    const known = this.states.get(name)
    if (known !== undefined) return known
    if (this.states.size >= NAMES_MAX) {
      this.sent.refused++
      return null
    }
    const made = { head: this.format.head(name), sent: 0, sentOfMs: null }
    this.states.set(name, made)
    return made
  }

  /** Waits for room; once that was in vain, the rest of the flush does not wait. */
  private async sendWhenWritable(line: string): Promise<boolean> {
    while (!this.isStuck) {
      if (!(await this.outlet.room(ROOM_MS))) this.isStuck = true
      else if (this.outlet.offer(line)) return true
    }
    this.sent.refused++
    return false
  }
}

/**
 * A sample rate as text that peers turn back into `samples`, whether they round 1 / rate or cut it: so it is never
 * above 1 / samples.
 */
export function rateText(samples: number): string {
  let rate = 1 / samples
  while (1 / rate < samples) rate *= 1 - Number.EPSILON
  return String(rate)
}

/** As a plain decimal: an exponent is not understood everywhere. */
export function plain(value: number): string {
  const text = String(value)
  return text.includes('e') ? value.toFixed(6) : text
}
