/**
 * Writes that wait for the disk: first in, first out, bounded (spec 8.2).
 *
 *     push ──► [ … up … down … up … ] ──► take, at most so many rows
 *                  ^ full: the oldest *up* is dropped first, since the next probe will most likely repeat it;
 *                    without one, the oldest write of all. Both are counted.
 *
 * Amortised constant time: a cursor marks up to where there is no *up*, so each place is visited once, and the array is
 * compacted only when more than half of it is empty. After an overload, hours look worse than they were, because `down` is
 * kept longer; the counter shows it.
 */
import { countRows, getOutcome, type Write } from './rows.ts'

export const QUEUE_ROWS_MAX = 50_000 // about 20 MB of probes; an hour of 1,000 sites and three vantages
const EMPTY_PLACES_MIN = 1_024 // with fewer the array is not compacted

export class WriteQueue {
  rowsCount = 0
  droppedUps = 0
  droppedOthers = 0
  private places: (Write | null)[] = []
  writesCount = 0 // places that are not empty
  private head = 0 // all before it are empty
  private upCursor = 0 // no up stands before it
  private readonly rowsMax: number

  constructor(rowsMax = QUEUE_ROWS_MAX) {
    this.rowsMax = rowsMax
  }

  push(write: Write): void {
    const rows = countRows(write)
    while (this.writesCount > 0 && this.rowsCount + rows > this.rowsMax) this.drop()
    this.places.push(write)
    this.writesCount += 1
    this.rowsCount += rows
  }

  /** The oldest writes, at least one if there is any, up to `rowsMax` rows. */
  take(rowsMax: number): Write[] {
    const taken: Write[] = []
    let rows = 0
    for (let at = this.head; at < this.places.length; at++) {
      const write = this.places[at]
      if (!write) continue
      rows += countRows(write)
      if (taken.length > 0 && rows > rowsMax) break
      taken.push(write)
      this.empty(at)
    }
    this.compact()
    return taken
  }

  private drop(): void {
    this.upCursor = Math.max(this.upCursor, this.head)
    while (this.upCursor < this.places.length && !this.isUp(this.upCursor)) this.upCursor++
    if (this.upCursor < this.places.length) {
      this.empty(this.upCursor)
      this.droppedUps += 1
    } else {
      this.empty(this.head)
      this.droppedOthers += 1
    }
    this.compact()
  }

  private isUp(at: number): boolean {
    const write = this.places[at]
    return write !== null && getOutcome(write) === 'up'
  }

  private empty(at: number): void {
    this.rowsCount -= countRows(this.places[at]!)
    this.writesCount -= 1
    this.places[at] = null
    while (this.head < this.places.length && !this.places[this.head]) this.head++
  }

  private compact(): void {
    const emptyCount = this.places.length - this.writesCount
    if (emptyCount < EMPTY_PLACES_MIN || emptyCount * 2 < this.places.length) return
    this.places = this.places.filter((write) => write !== null)
    this.head = 0
    this.upCursor = 0
  }
}
