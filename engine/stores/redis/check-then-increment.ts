/**
 * Batches that stop incrementing over the limit (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, spec 4.2): requests are taken in
 * order, and where a request would take counters over their limit, only those counters get its hits.
 *
 *     one server       add-hits.lua does this in one round trip and atomically
 *     several nodes    GET the counters of requests with several ─► decide here ─► send the remaining hits
 *
 * Between the two round trips others may add; then a counter gets hits that it should not have received, as with
 * envoyproxy/ratelimit. Such a batch does not merge equal keys, so each slot has one member, of the same number.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { StoreError } from '../../runtime/errors.ts'
import type { Batch } from '../batch.ts'
import { isKeyError, isWrongServer } from './error-replies.ts'
import type { PipelinedBatch } from './pipelined-batch.ts'
import { cutText, ErrorReply, type Reply } from './resp.ts'
import type { RedisTopology } from './topology.ts'

const ADDED = 'EXPIRE: ' // add-hits.lua: before the error of a key whose hits were added

let script = { text: '', sha: '' } // loaded on first use

export function checkThenIncrement(pipelined: PipelinedBatch): void {
  const [main, perSecond] = pipelined.topologies
  if (perSecond === undefined && main.isSingleNode) runScript(pipelined, main)
  else readThenIncrement(pipelined)
}

/** Sends the whole batch to add-hits.lua. */
function runScript(pipelined: PipelinedBatch, topology: RedisTopology): void {
  const { batch } = pipelined
  const node = topology.findNode('')!
  if (batch.slotsCount === 0) {
    pipelined.send([], 0)
    return
  }
  if (script.text === '') script = loadScript()
  const args = toScriptArgs(batch)
  const sample = { key: batch.counters[0].key, expirySec: batch.expirySec[0] }
  pipelined.expect(batch.slotsCount)
  const onReply = (error: StoreError | null, [reply]: Reply[]) => {
    if (error !== null) batch.failAll(error)
    else readScriptReply(pipelined, topology, reply)
    pipelined.finish(batch.slotsCount)
  }
  const onShaReply = (error: StoreError | null, replies: Reply[]) => {
    // nothing was run, so sending it again counts once; EVAL also caches the script
    if (isNoScript(replies[0]))
      node.request([['EVAL', script.text, ...args]], pipelined.startMs, onReply, sample)
    else onReply(error, replies)
  }
  node.request([['EVALSHA', script.sha, ...args]], pipelined.startMs, onShaReply, sample)
}

function isNoScript(reply: Reply | undefined): reply is ErrorReply {
  return reply instanceof ErrorReply && reply.text.startsWith('NOSCRIPT')
}

function loadScript() {
  const text = readFileSync(new URL('./add-hits.lua', import.meta.url), 'utf8')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

function toScriptArgs(batch: Batch): (string | number)[] {
  const { slotsCount, counters, expirySec, limits, isTolerated, requestEnds } = batch
  const args: (string | number)[] = [slotsCount]
  for (let slot = 0; slot < slotsCount; slot++) args.push(counters[slot].key)
  for (let slot = 0; slot < slotsCount; slot++) args.push(batch.hitsText(slot), expirySec[slot])
  for (let slot = 0; slot < slotsCount; slot++) args.push(limits[slot])
  let tolerated = ''
  for (let slot = 0; slot < slotsCount; slot++) tolerated += isTolerated[slot] ? '1' : '0'
  args.push(tolerated)
  for (const end of requestEnds) args.push(end)
  return args
}

/** For each key the count before, or the text of its error. Fails the batch if the reply is neither. */
function readScriptReply(pipelined: PipelinedBatch, topology: RedisTopology, reply: Reply): void {
  const { batch } = pipelined
  if (!isScriptReply(reply, batch)) {
    const isError = reply instanceof ErrorReply
    const reason = isError ? reply.text : 'the reply is not one count per key'
    batch.failAll(new StoreError(`redis ${topology.name}: ${reason}`, !isError))
    if (!isError) topology.findNode('')!.onUnexpectedReply()
    else if (isNoScript(reply)) topology.findNode('')!.onServerError(reply.text) // to EVAL, which needs no cached script
    return
  }
  let wrongServerText = ''
  for (let slot = 0; slot < reply.length; slot++) {
    const before = reply[slot]
    if (typeof before !== 'string') {
      batch.setPreviousCount(slot, Number(before))
      continue
    }
    const isAdded = before.startsWith(ADDED)
    const text = cutText(isAdded ? before.slice(ADDED.length) : before)
    if (isAdded) pipelined.failWithReply(slot, text, true)
    else pipelined.setErrorReply(slot, text)
    if (isWrongServer(text)) wrongServerText = text
    if (!isKeyError(text)) topology.findNode('')!.onServerError(text)
  }
  if (wrongServerText !== '') topology.findNode('')!.drop(wrongServerText)
}

/**
 * Whether there is a count or a text per key. A count is not above 2^53-1, and not below 0 by more than the key's hits: those that were
 * skipped are subtracted.
 */
function isScriptReply(reply: Reply, { slotsCount, hits }: Batch): reply is (number | bigint | string)[] {
  return (
    Array.isArray(reply) &&
    reply.length === slotsCount &&
    reply.every((before, slot) => {
      if (typeof before === 'string') return true
      const count = typeof before === 'bigint' ? Number(before) : before
      return typeof count === 'number' && count >= -hits[slot] && count <= Number.MAX_SAFE_INTEGER
    })
  )
}

/** Both round trips, for counters on several nodes. */
function readThenIncrement(pipelined: PipelinedBatch): void {
  const { batch } = pipelined
  const counts: number[] = new Array(batch.slotsCount).fill(0)
  const slots: number[] = []
  let first = 0
  for (const end of batch.requestEnds) {
    if (end - first > 1) for (let slot = first; slot < end; slot++) slots.push(slot)
    first = end // the hits of a request with one counter are added whatever the count
  }
  let pendingCount = slots.length + 1 // 1 until all have been sent
  const onRead = () => {
    pendingCount--
    if (pendingCount === 0) incrementAllowed(pipelined, counts)
  }
  for (const slot of slots) readCount(pipelined, slot, counts, onRead)
  onRead()
}

/** GET of one slot's counter. */
function readCount(pipelined: PipelinedBatch, slot: number, counts: number[], onRead: () => void): void {
  const { key } = pipelined.batch.counters[slot]
  const topology = pipelined.getTopology(slot)
  const keyCommand = {
    key,
    sentMs: pipelined.startMs,
    isAsking: false,
    redirects: 0,
    commands: () => [['GET', key]],
    done: (error: StoreError | null, [reply]: readonly Reply[]) => {
      if (error !== null) pipelined.fail(slot, error)
      else if (reply instanceof ErrorReply) pipelined.failWithReply(slot, reply.text)
      else {
        counts[slot] = Number(reply ?? 0)
        if (!(counts[slot] >= 0))
          pipelined.failWithReply(slot, `its count is not a number from 0: ${cutText(String(reply))}`)
      }
      onRead()
    },
  }
  topology.send(keyCommand, topology.findNode(key))
}

function incrementAllowed(pipelined: PipelinedBatch, counts: number[]): void {
  const { batch } = pipelined
  const addedHits = new Map<string, number>() // by earlier requests of this batch, per counter
  const isSkipped: boolean[] = []
  const slots: number[] = []
  let first = 0
  for (const end of batch.requestEnds) {
    const error = findFatalError(batch, first, end)
    if (error === null) decideRequest(pipelined, first, end, counts, addedHits, isSkipped)
    for (let slot = first; slot < end; slot++) {
      if (error !== null)
        batch.setError(slot, error) // a request that cannot be read adds nothing
      else if (batch.getSlotError(slot) === null) slots.push(slot)
    }
    first = end
  }
  pipelined.isSkipped = isSkipped
  pipelined.send(slots, slots.length)
}

function decideRequest(
  pipelined: PipelinedBatch,
  first: number,
  end: number,
  counts: number[],
  addedHits: Map<string, number>,
  isSkipped: boolean[],
): void {
  const { batch } = pipelined
  const { hits, limits } = batch
  let isOverLimit = false
  for (let slot = first; slot < end; slot++) {
    if (batch.getSlotError(slot) !== null) continue
    counts[slot] += (addedHits.get(getCounterId(pipelined, slot)) ?? 0) + hits[slot] // now the count after these hits
    if (counts[slot] > limits[slot]) isOverLimit = true
  }
  for (let slot = first; slot < end; slot++) {
    if (batch.getSlotError(slot) !== null) continue
    const counterId = getCounterId(pipelined, slot)
    isSkipped[slot] = isOverLimit && counts[slot] <= limits[slot] && end - first > 1
    if (!isSkipped[slot]) addedHits.set(counterId, (addedHits.get(counterId) ?? 0) + hits[slot])
  }
}

/** Both instances may hold a counter of the same key (spec Q20). */
function getCounterId(pipelined: PipelinedBatch, slot: number): string {
  return `${pipelined.getTopology(slot).name} ${pipelined.batch.counters[slot].key}`
}

/** Of a counter without which its request cannot be decided. */
function findFatalError(batch: Batch, first: number, end: number): Error | null {
  for (let slot = first; slot < end; slot++) {
    const error = batch.getSlotError(slot)
    if (error !== null && !batch.isTolerated[slot]) return error
  }
  return null
}
