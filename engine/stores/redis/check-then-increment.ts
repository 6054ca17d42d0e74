/**
 * A stopping batch (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, spec 4.2): its requests are walked in order, and where counters
 * of a request would pass their limits only those get their hits.
 *
 *     all on one server   add-hits.lua walks there, in one trip: between its look and its adding nobody else adds
 *     several places      GET of what requests with several counters ask for ─► the walk here ─► the hits that are left
 *
 * Between the two trips somebody else may add; then a counter gets hits that it would have been spared, as in the reference.
 * Nothing is merged in a stopping batch, so each slot has one member of the same number.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { StoreError } from '../../runtime/errors.ts'
import type { Batch } from '../batch.ts'
import { isWrongServer } from './node.ts'
import type { PipelinedBatch } from './pipelined-batch.ts'
import { ErrorReply, type Reply } from './resp-reader.ts'
import type { RedisTopology } from './topology.ts'

let script = { text: '', sha: '' } // read when it is first needed

/** Sends the whole batch to add-hits.lua. */
export function runScript(trip: PipelinedBatch, instance: RedisTopology): void {
  const { batch } = trip
  const node = instance.findNode('')!
  if (batch.slotsCount === 0) {
    trip.add([], 0)
    return
  }
  if (script.text === '') script = readScript()
  const args = scriptArgs(batch)
  trip.expect(batch.slotsCount)
  const answered = (error: StoreError | null, [reply]: Reply[]) => {
    if (error !== null) batch.failAll(error)
    else if (reply instanceof ErrorReply && reply.text.startsWith('NOSCRIPT')) {
      // nothing was run: sending it again counts once. EVAL keeps the script for the next time
      node.ask([['EVAL', script.text, ...args]], trip.startMs, answered)
      return
    } else readScriptReply(trip, instance, reply)
    trip.finished(batch.slotsCount)
  }
  node.ask([['EVALSHA', script.sha, ...args]], trip.startMs, answered)
}

function readScript() {
  const text = readFileSync(new URL('./add-hits.lua', import.meta.url), 'utf8')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

function scriptArgs(batch: Batch): (string | number)[] {
  const { slotsCount, counters, expirySec, limits, requestEnds } = batch
  const args: (string | number)[] = [slotsCount]
  for (let slot = 0; slot < slotsCount; slot++) args.push(counters[slot].key)
  for (let slot = 0; slot < slotsCount; slot++) args.push(batch.hitsText(slot), expirySec[slot])
  for (let slot = 0; slot < slotsCount; slot++) args.push(limits[slot])
  for (const end of requestEnds) args.push(end)
  return args
}

/** The script's answer: for each key the count before, or what is wrong with it. */
function readScriptReply(trip: PipelinedBatch, instance: RedisTopology, reply: Reply): void {
  const { batch } = trip
  if (!Array.isArray(reply) || reply.length !== batch.slotsCount) {
    const why = reply instanceof ErrorReply ? reply.text : 'the reply is not one count per key'
    batch.failAll(new StoreError(`redis ${instance.name}: ${why}`))
    return
  }
  let wrong = ''
  for (let slot = 0; slot < reply.length; slot++) {
    const before = reply[slot]
    if (typeof before === 'number') batch.setPreviousCount(slot, before)
    else trip.wrong(slot, String(before))
    if (typeof before === 'string' && isWrongServer(before)) wrong = before
  }
  if (wrong !== '') instance.findNode('')!.drop(wrong)
}

/** Both trips, for counters in several places. */
export function checkThenIncrement(trip: PipelinedBatch): void {
  const { batch } = trip
  const counts: number[] = new Array(batch.slotsCount).fill(0)
  const slots: number[] = []
  let first = 0
  for (const end of batch.requestEnds) {
    if (end - first > 1) for (let slot = first; slot < end; slot++) slots.push(slot)
    first = end // a request with one counter: whatever it finds, its hits are added
  }
  let leftCount = slots.length + 1 // 1 for handing them over
  const finished = () => {
    leftCount--
    if (leftCount === 0) incrementAllowed(trip, counts)
  }
  for (const slot of slots) readCounts(trip, slot, counts, finished)
  finished()
}

/** GET of one slot's counter. */
function readCounts(trip: PipelinedBatch, slot: number, counts: number[], finished: () => void): void {
  const { key } = trip.batch.counters[slot]
  const instance = trip.getTopology(slot)
  const errand = {
    key,
    sentMs: trip.startMs,
    isAsking: false,
    redirects: 0,
    commands: () => [['GET', key]],
    done: (error: StoreError | null, [reply]: readonly Reply[]) => {
      if (error !== null) trip.failed(slot, error)
      else if (reply instanceof ErrorReply) trip.wrong(slot, reply.text)
      else {
        counts[slot] = Number(reply ?? 0)
        if (!(counts[slot] >= 0)) trip.wrong(slot, `its count is not a number from 0: ${String(reply)}`)
      }
      finished()
    },
  }
  instance.send(errand, instance.findNode(key))
}

function incrementAllowed(trip: PipelinedBatch, counts: number[]): void {
  const { batch } = trip
  const added = new Map<string, number>() // by the requests before, in this batch
  const isLeftOut: boolean[] = []
  const slots: number[] = []
  let first = 0
  for (const end of batch.requestEnds) {
    const error = firstError(batch, first, end)
    if (error === null) incrementRequest(trip, first, end, counts, added, isLeftOut)
    for (let slot = first; slot < end; slot++) {
      if (error === null) slots.push(slot)
      else batch.setError(slot, error) // a request that cannot be read adds nothing
    }
    first = end
  }
  trip.isSkipped = isLeftOut
  trip.add(slots, slots.length)
}

function incrementRequest(
  trip: PipelinedBatch,
  first: number,
  end: number,
  counts: number[],
  added: Map<string, number>,
  isLeftOut: boolean[],
): void {
  const { hits, limits } = trip.batch
  let isStopped = false
  for (let slot = first; slot < end; slot++) {
    counts[slot] += (added.get(getCounterId(trip, slot)) ?? 0) + hits[slot] // from here on: as they would be after
    if (counts[slot] > limits[slot]) isStopped = true
  }
  for (let slot = first; slot < end; slot++) {
    const counter = getCounterId(trip, slot)
    isLeftOut[slot] = isStopped && counts[slot] <= limits[slot] && end - first > 1
    if (!isLeftOut[slot]) added.set(counter, (added.get(counter) ?? 0) + hits[slot])
  }
}

/** Both instances may hold a counter of the same key (spec Q20). */
function getCounterId(trip: PipelinedBatch, slot: number): string {
  return `${trip.getTopology(slot).name} ${trip.batch.counters[slot].key}`
}

function firstError(batch: Batch, first: number, end: number): Error | null {
  for (let slot = first; slot < end; slot++) {
    const error = batch.getError(slot)
    if (error !== null) return error
  }
  return null
}
