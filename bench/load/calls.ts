/**
 * The calls in flight of one connection: a column per field, a slot per call.
 *
 *     stream id   1  3  5  7  9 ...      slot = the low bits of id / 2; an id whose slot is taken is skipped,
 *     slot        0  1  2  3  0          which HTTP/2 allows. Twice as many slots as calls, so few are.
 */
export class Calls {
  readonly ids: Int32Array // 0 = free
  readonly dueMs: Float64Array
  readonly codes: Int32Array // of the message; 0 = none yet
  readonly statuses: Int32Array // of HTTP; 0 = no headers yet
  count = 0
  nextId = 1
  private readonly mask: number

  constructor(callsMax: number) {
    const slots = 2 ** Math.ceil(Math.log2(2 * callsMax))
    this.mask = slots - 1
    this.ids = new Int32Array(slots)
    this.dueMs = new Float64Array(slots)
    this.codes = new Int32Array(slots)
    this.statuses = new Int32Array(slots)
  }

  /** Adds a call and returns its stream id. There must be fewer than `callsMax`. */
  add(dueMs: number): number {
    while (this.ids[(this.nextId >>> 1) & this.mask] !== 0) this.nextId += 2
    const id = this.nextId
    const slot = (id >>> 1) & this.mask
    this.nextId += 2
    this.ids[slot] = id
    this.dueMs[slot] = dueMs
    this.codes[slot] = 0
    this.statuses[slot] = 0
    this.count++
    return id
  }

  /** Returns -1 if there is no such call. */
  findSlot(id: number): number {
    const slot = (id >>> 1) & this.mask
    return id !== 0 && this.ids[slot] === id ? slot : -1
  }

  release(slot: number): void {
    this.ids[slot] = 0
    this.count--
  }
}
