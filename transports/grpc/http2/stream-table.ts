/**
 * A connection's open streams by id.
 *
 *     id 5 ──► place 5 * odd & mask ──► free? no, 37 is there ──► next place
 *
 * A Map makes itself a new table every few dozen calls, and the old one, dead in the collector's old space, keeps what
 * was open at that time: with many calls that carried each stream over, and doubled the collector's work. This table is
 * overwritten in place.
 */
const PLACES_MIN = 32 // a power of two
const SPREAD = 0x9e37_79b1

export class StreamTable<T> {
  size = 0
  private ids = new Int32Array(PLACES_MIN) // 0 = free: no call has that id
  private streams: (T | undefined)[] = places(PLACES_MIN)

  get(id: number): T | undefined {
    const { ids } = this
    const mask = ids.length - 1
    for (let place = toBucketIndex(id, mask); ids[place] !== 0; place = (place + 1) & mask) {
      if (ids[place] === id) return this.streams[place]
    }
    return undefined
  }

  /** An id that is not there yet, 1 to 2^31-1. */
  set(id: number, stream: T): void {
    if (2 * this.size >= this.ids.length) this.resize(2 * this.ids.length)
    this.put(id, stream)
    this.size++
  }

  /** Does nothing for an id that is not there. */
  delete(id: number): void {
    const { ids, streams } = this
    const mask = ids.length - 1
    let gap = toBucketIndex(id, mask)
    while (ids[gap] !== id) {
      if (ids[gap] === 0) return
      gap = (gap + 1) & mask
    }
    // those behind the gap that a search would pass it for move up, so that searches may end at free places
    for (let place = (gap + 1) & mask; ids[place] !== 0; place = (place + 1) & mask) {
      const home = toBucketIndex(ids[place], mask)
      if (((place - home) & mask) < ((place - gap) & mask)) continue
      ids[gap] = ids[place]
      streams[gap] = streams[place]
      gap = place
    }
    ids[gap] = 0
    streams[gap] = undefined
    if (--this.size === 0 && ids.length > PLACES_MIN) this.resize(PLACES_MIN)
  }

  /** Those of now, however they change meanwhile. */
  values(): T[] {
    const { streams } = this
    return streams.filter((_, place) => this.ids[place] !== 0) as T[]
  }

  private put(id: number, stream: T): void {
    const { ids } = this
    const mask = ids.length - 1
    let place = toBucketIndex(id, mask)
    while (ids[place] !== 0) place = (place + 1) & mask
    ids[place] = id
    this.streams[place] = stream
  }

  private resize(count: number): void {
    const { ids, streams } = this
    this.ids = new Int32Array(count)
    this.streams = places(count)
    for (let place = 0; place < ids.length; place++) {
      if (ids[place] !== 0) this.put(ids[place], streams[place]!)
    }
  }
}

function toBucketIndex(id: number, mask: number): number {
  return (Math.imul(id, SPREAD) >>> 16) & mask
}

function places<T>(count: number): (T | undefined)[] {
  return new Array(count).fill(undefined)
}
