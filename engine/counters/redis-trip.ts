/**
 * One batch on its way to Redis and back: split into calls that each stay in one place, joined again.
 *
 *     batch           calls                       reply
 *       a   1   ──►   main, group 0:  a c   ──►   before of a, of c ┐
 *       b   1   ──►   per second:     b     ──►   before of b       ┴──► done(batch)
 *       c   2
 *
 * All calls leave at once; an error of one is an error of its slots alone. What the others added stays (spec Q37).
 *
 * A stopping batch (spec 4.2) is one call where everything is on one server: the script walks its requests. Elsewhere it
 * takes two trips, as in the reference: MGET of what requests with several counters ask for, the walk here, then the hits
 * that are left. Between the two somebody else may add; then a counter gets hits that it would have been spared.
 */
import { StoreError } from '../errors.ts'
import type { Batch } from './batch.ts'
import type { Call, RedisInstance } from './redis-instance.ts'
import { scriptSha } from './redis-node.ts'

/** Takes a slot's value out of a reply; says what is wrong with it, or null. */
type Read = (slot: number, value: unknown) => string | null

export class Trip {
  readonly startMs = performance.now()
  private readonly batch: Batch
  private readonly instances: readonly RedisInstance[] // main, and the one for limits per second if there is one
  private readonly done: () => void

  constructor(batch: Batch, instances: readonly RedisInstance[], done: () => void) {
    this.batch = batch
    this.instances = instances
    this.done = done
  }

  start(): void {
    const { batch } = this
    const slots = Array.from({ length: batch.slotsCount }, (_, slot) => slot)
    const read: Read = (slot, value) => readBefore(batch, slot, value)
    if (batch.isStopping && !this.isOnePlace) this.look()
    else this.send(slots, batch.isStopping ? walkCommand(batch) : addCommand(batch, []), read, this.done)
  }

  private get isOnePlace(): boolean {
    return this.instances.length === 1 && this.instances[0].isOnePlace
  }

  /** Sends the slots to where they belong; `then` is called when each has its answer. */
  private send(slots: number[], command: Call['command'], read: Read, then: () => void): void {
    let leftCount = slots.length
    if (leftCount === 0) {
      then()
      return
    }
    const answered: Call['answered'] = (some, error, values) => {
      for (let i = 0; i < some.length; i++) {
        if (error !== null) this.batch.setError(some[i], error)
        else this.read(some[i], values[i], read)
      }
      leftCount -= some.length
      if (leftCount === 0) then()
    }
    if (this.isOnePlace) {
      this.instances[0].send({ group: 0, slots, sentMs: this.startMs, command, answered })
      return
    }
    for (const [place, those] of this.places(slots)) {
      const instance = this.instances[place & 1]
      instance.send({ group: place >> 1, slots: those, sentMs: this.startMs, command, answered })
    }
  }

  /** Slots by group and instance: `2 * group`, and 1 more for the second instance. */
  private places(slots: number[]): Map<number, number[]> {
    const places = new Map<number, number[]>()
    for (const slot of slots) {
      const second = this.secondOf(slot)
      const place = 2 * this.instances[second].groupOf(this.batch.counters[slot].key) + second
      const those = places.get(place)
      if (those) those.push(slot)
      else places.set(place, [slot])
    }
    return places
  }

  /** 1 for a counter of the instance for limits per second, if there is one; else 0 (spec 3.2). */
  private secondOf(slot: number): number {
    return this.instances.length === 2 && this.batch.isPerSecond[slot] ? 1 : 0
  }

  private read(slot: number, value: unknown, read: Read): void {
    const wrong = read(slot, value)
    if (wrong === null) return
    const { name } = this.instances[this.secondOf(slot)]
    this.batch.setError(
      slot,
      new StoreError(`redis ${name}: counter "${this.batch.counters[slot].key}": ${wrong}`),
    )
  }

  // a stopping batch in several places: nothing is merged, so each slot has one member of the same number

  private look(): void {
    const { batch } = this
    const slots: number[] = []
    let first = 0
    for (const end of batch.requestEnds) {
      if (end - first > 1) for (let slot = first; slot < end; slot++) slots.push(slot)
      first = end // a request with one counter: whatever it finds, its hits are added
    }
    const counts: number[] = new Array(batch.slotsCount).fill(0)
    const read: Read = (slot, value) => {
      counts[slot] = Number(value ?? 0)
      return counts[slot] >= 0 ? null : `its count is not a number from 0: ${String(value)}`
    }
    this.send(slots, mgetCommand(batch), read, () => this.walk(counts))
  }

  private walk(counts: number[]): void {
    const { batch } = this
    const added = new Map<string, number>() // by the requests before, in this batch
    const isLeftOut: boolean[] = [] // the slot gets no hits
    const slots: number[] = []
    let first = 0
    for (const end of batch.requestEnds) {
      const error = firstError(batch, first, end)
      if (error === null) this.walkRequest(first, end, counts, added, isLeftOut)
      for (let slot = first; slot < end; slot++) {
        if (error === null) slots.push(slot)
        else batch.setError(slot, error) // a request that cannot be read adds nothing
      }
      first = end
    }
    const read: Read = (slot, value) =>
      readBefore(batch, slot, isLeftOut[slot] && typeof value === 'number' ? value - batch.hits[slot] : value)
    this.send(slots, addCommand(batch, isLeftOut), read, this.done)
  }

  private walkRequest(
    first: number,
    end: number,
    counts: number[],
    added: Map<string, number>,
    isLeftOut: boolean[],
  ): void {
    const { hits, limits } = this.batch
    let isStopped = false
    for (let slot = first; slot < end; slot++) {
      counts[slot] += (added.get(this.counterOf(slot)) ?? 0) + hits[slot] // from here on: as they would be after
      if (counts[slot] > limits[slot]) isStopped = true
    }
    for (let slot = first; slot < end; slot++) {
      const counter = this.counterOf(slot)
      isLeftOut[slot] = isStopped && counts[slot] <= limits[slot] && end - first > 1
      if (!isLeftOut[slot]) added.set(counter, (added.get(counter) ?? 0) + hits[slot])
    }
  }

  /** Both instances may hold a counter of the same key (spec Q20). */
  private counterOf(slot: number): string {
    return `${this.secondOf(slot)}${this.batch.counters[slot].key}`
  }
}

function readBefore(batch: Batch, slot: number, value: unknown): string | null {
  if (typeof value !== 'number') return String(value)
  batch.setBefore(slot, Math.min(value, Number.MAX_SAFE_INTEGER)) // ioredis reads 2^53-1 as 2^53
  return null
}

function firstError(batch: Batch, first: number, end: number): Error | null {
  for (let slot = first; slot < end; slot++) {
    const error = batch.errorOf(slot)
    if (error !== null) return error
  }
  return null
}

function mgetCommand({ counters }: Batch): Call['command'] {
  return (slots) => ({ name: 'mget', args: slots.map((slot) => counters[slot].key) })
}

/** add-hits.lua: SHA, number of keys, keys, then hits and expiry of each. */
function addCommand(batch: Batch, isLeftOut: boolean[]): Call['command'] {
  return (slots) => {
    const args: (string | number)[] = [scriptSha, slots.length]
    for (const slot of slots) args.push(batch.counters[slot].key)
    for (const slot of slots) args.push(isLeftOut[slot] ? 0 : batch.hitsText(slot), batch.expirySec[slot])
    return { name: 'evalsha', args }
  }
}

/** add-hits.lua for a stopping batch as a whole: then each limit, and the last key of each request. */
function walkCommand(batch: Batch): Call['command'] {
  const add = addCommand(batch, [])
  return (slots) => {
    const { name, args } = add(slots)
    for (const slot of slots) args.push(batch.limits[slot])
    args.push(...batch.requestEnds)
    return { name, args }
  }
}
