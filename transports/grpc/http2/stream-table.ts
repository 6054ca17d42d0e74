/**
 * A connection's open streams by id: a hash table with open addressing, and the streams ended early.
 *
 *     id 5 ──► slot 5 * multiplier & mask ──► taken by 37 ──► next slot
 *
 * A Map allocates a new table every few dozen calls; the old one, dead in V8's old space, keeps the streams that were open
 * then, which doubled the work of the garbage collector with many calls. This table is overwritten in place.
 */
import { ENDED_STREAMS_MAX } from './bounds.ts'

const SLOTS_MIN = 32 // a power of two
const HASH_MULTIPLIER = 0x9e37_79b1

export class StreamTable<T> {
  size = 0
  private ids = new Int32Array(SLOTS_MIN) // 0 = free: no stream has that id
  private streams: (T | undefined)[] = emptySlots(SLOTS_MIN)

  get(id: number): T | undefined {
    const { ids } = this
    const mask = ids.length - 1
    for (let slot = toBucketIndex(id, mask); ids[slot] !== 0; slot = (slot + 1) & mask) {
      if (ids[slot] === id) return this.streams[slot]
    }
    return undefined
  }

  /** `id` is 1 to 2^31-1 and not in the table. */
  set(id: number, stream: T): void {
    if (2 * this.size >= this.ids.length) this.resize(2 * this.ids.length)
    this.put(id, stream)
    this.size++
  }

  /** Does nothing for an id that is not in the table. */
  delete(id: number): void {
    const { ids, streams } = this
    const mask = ids.length - 1
    let gap = toBucketIndex(id, mask)
    while (ids[gap] !== id) {
      if (ids[gap] === 0) return
      gap = (gap + 1) & mask
    }
    // entries whose search would pass the gap move into it, so that searches may end at free slots
    for (let slot = (gap + 1) & mask; ids[slot] !== 0; slot = (slot + 1) & mask) {
      const preferred = toBucketIndex(ids[slot], mask)
      if (((slot - preferred) & mask) < ((slot - gap) & mask)) continue
      ids[gap] = ids[slot]
      streams[gap] = streams[slot]
      gap = slot
    }
    ids[gap] = 0
    streams[gap] = undefined
    if (--this.size === 0 && ids.length > SLOTS_MIN) this.resize(SLOTS_MIN)
  }

  /** A snapshot, so streams may be added and removed while iterating. */
  values(): T[] {
    const { streams } = this
    return streams.filter((_, slot) => this.ids[slot] !== 0) as T[]
  }

  private put(id: number, stream: T): void {
    const { ids } = this
    const mask = ids.length - 1
    let slot = toBucketIndex(id, mask)
    while (ids[slot] !== 0) slot = (slot + 1) & mask
    ids[slot] = id
    this.streams[slot] = stream
  }

  private resize(count: number): void {
    const { ids, streams } = this
    this.ids = new Int32Array(count)
    this.streams = emptySlots(count)
    for (let slot = 0; slot < ids.length; slot++) {
      if (ids[slot] !== 0) this.put(ids[slot], streams[slot]!)
    }
  }
}

function toBucketIndex(id: number, mask: number): number {
  return (Math.imul(id, HASH_MULTIPLIER) >>> 16) & mask
}

function emptySlots<T>(count: number): (T | undefined)[] {
  return new Array(count).fill(undefined)
}

/**
 * Streams that this side ended while the peer was still sending: frames already under way are no fault. The last
 * ENDED_STREAMS_MAX are remembered; a connection without any allocates nothing.
 */
export class EndedStreams {
  private ids: Int32Array | null = null
  private nextIndex = 0

  add(id: number): void {
    this.ids ??= new Int32Array(ENDED_STREAMS_MAX)
    this.ids[this.nextIndex] = id
    this.nextIndex = (this.nextIndex + 1) % ENDED_STREAMS_MAX
  }

  has(id: number): boolean {
    return this.ids?.includes(id) ?? false
  }
}
