/**
 * One batch sent to Redis: split over instances and nodes, with one pipelined write to each, and joined again.
 *
 *     batch           one write each               replies
 *       a   1   ──►   main, node 1:   a c    ──►   counts of a, c ┐
 *       b   1   ──►   per second:     b      ──►   count of b     ┴──► done
 *       c   2
 *
 * All writes leave at once. An error of one node fails its slots alone; what the others added stays (spec Q37).
 * A node's write holds an INCRBY per slot, and an EXPIRE where this connection has not yet set the counter's expiry:
 *
 *     counter                                  sent                       replies
 *     expiry set on this connection            INCRBY a 2                 :7           5 before
 *     not yet                                  INCRBY b 1  EXPIRE b 60    :1 :1        0 before
 *     set, but the key has gone from Redis     INCRBY c 1                 :1           0 before, so it is new: EXPIRE c 60
 *                                                                                      follows in a write of its own
 *
 * `Counter.expirySetOnConnection` holds the number of that connection. Redis runs the commands of a connection in order, so no
 * counter stays without expiry: a new connection has another number, and an error or a lost reply resets it. The engine keeps
 * the counters of frequent descriptors; others are new objects with each hit and send EXPIRE each time, as does a thread
 * that adds to a counter of another thread. For 32 keys Redis takes 0.4 us each without EXPIRE and 0.9 with it; the script that this
 * replaced took 1.0 for both, and 3.3 instead of 2.4 for new keys (bench/redis.ts).
 *
 * Limit: a counter that is deleted by hand and made again by a hit whose reply is lost has no expiry until a thread first
 * uses it anew. The next window has another counter.
 */
import { StoreError } from '../../runtime/errors.ts'
import { BATCH_SLOTS_MAX, type Batch } from '../batch.ts'
import { isOverflow, isWrongServer } from './error-replies.ts'
import type { RedisNode } from './node.ts'
import type { NodeCall, Sample } from './node-call.ts'
import { ErrorReply, HitWriter, type Reply } from './resp.ts'
import type { KeyCommand, RedisTopology } from './topology.ts'

const EVERY_SLOT = Array.from({ length: BATCH_SLOTS_MAX }, (_, slot) => slot)
const COUNT_MAX = BigInt(Number.MAX_SAFE_INTEGER)

const writer = new HitWriter() // of this thread

/** Results of an INCRBY. */
const COUNTED = 0
const FAILED = 1
const REDIRECTED = 2 // not run; it has been sent to another node
type IncrbyResult = typeof COUNTED | typeof FAILED | typeof REDIRECTED

export class PipelinedBatch {
  readonly batch: Batch
  readonly topologies: readonly RedisTopology[] // main, and the one for limits per second if there is one
  readonly startMs: number // when the callers began to wait
  isSkipped: readonly boolean[] | null = null // slots that get no hits (spec 4.2); null = none
  private readonly onDone: () => void
  private pendingCount = 0 // slots without a result
  private lastError: StoreError | null = null

  constructor(batch: Batch, topologies: readonly RedisTopology[], startMs: number, onDone: () => void) {
    this.batch = batch
    this.topologies = topologies
    this.startMs = startMs
    this.onDone = onDone
  }

  /** Adds the hits of every slot. */
  sendAll(): void {
    this.send(EVERY_SLOT, this.batch.slotsCount)
  }

  /** Adds the hits of the first `slotsCount` of `slots`. */
  send(slots: readonly number[], slotsCount: number): void {
    const { topologies } = this
    this.pendingCount = slotsCount + 1 // 1 until all have been sent
    if (topologies.length === 1 && topologies[0].isSingleNode)
      this.sendTo(topologies[0].findNode('')!, topologies[0], slots, slotsCount)
    else {
      for (const [node, nodeSlots] of this.groupByNode(slots, slotsCount))
        this.sendTo(node, this.getTopology(nodeSlots[0]), nodeSlots, nodeSlots.length)
    }
    this.finish(1)
  }

  /** The slots of each node, in their order. Slots that no node owns fail. */
  private groupByNode(slots: readonly number[], slotsCount: number): Map<RedisNode, number[]> {
    const slotsByNode = new Map<RedisNode, number[]>()
    for (let i = 0; i < slotsCount; i++) {
      const topology = this.getTopology(slots[i])
      const node = topology.findNode(this.batch.counters[slots[i]].key)
      const nodeSlots = node === null ? undefined : slotsByNode.get(node)
      if (nodeSlots !== undefined) nodeSlots.push(slots[i])
      else if (node !== null) slotsByNode.set(node, [slots[i]])
      else topology.send(this.createKeyCommand(slots[i]), null) // which fails it
    }
    return slotsByNode
  }

  private sendTo(
    node: RedisNode,
    topology: RedisTopology,
    slots: readonly number[],
    slotsCount: number,
  ): void {
    if (slotsCount === 0) return
    const { refusal } = node
    const pipeline = new NodePipeline(this, node, slots, slotsCount)
    if (refusal === null) pipeline.send()
    else if (topology.isWaitingFor(node))
      for (let i = 0; i < slotsCount; i++) topology.send(this.createKeyCommand(slots[i]), node)
    else pipeline.fail(node.refuse(refusal, pipeline.sample))
  }

  /** The instance that counts the slot (spec 3.2). */
  getTopology(slot: number): RedisTopology {
    return this.topologies.length === 2 && this.batch.isPerSecond[slot]
      ? this.topologies[1]
      : this.topologies[0]
  }

  /** The increment of the slot's INCRBY. */
  hitsText(slot: number): string {
    if (this.isSkipped?.[slot]) return '0'
    return this.batch.hits[slot] === 1 ? '1' : this.batch.hitsText(slot)
  }

  // results of slots

  /** Results of so many slots will come from a caller that sends them itself. */
  expect(slotsCount: number): void {
    this.pendingCount = slotsCount
  }

  /** So many slots have their results. */
  finish(count: number): void {
    this.pendingCount -= count
    if (this.pendingCount === 0) this.onDone()
  }

  /** INCRBY returned `count`. A new counter has no expiry unless EXPIRE was sent with it. */
  setCount(slot: number, count: number, hasExpiry: boolean): void {
    const hits = this.batch.hits[slot]
    const before = count - hits
    if (before < 0 || hits > Number.MAX_SAFE_INTEGER || this.isSkipped !== null)
      this.setExactCount(slot, BigInt(count), hasExpiry)
    else {
      this.batch.setPreviousCount(slot, before)
      if (before === 0 && !hasExpiry) this.expire(slot)
    }
  }

  private setExactCount(slot: number, count: bigint, hasExpiry: boolean): void {
    const before = count - BigInt(this.hitsText(slot))
    if (before < 0n) this.failWithReply(slot, `its count is negative: ${before}`, true)
    else {
      const hits = this.isSkipped?.[slot] ? this.batch.hits[slot] : 0
      this.batch.setPreviousCount(slot, Number(before < COUNT_MAX ? before : COUNT_MAX) - hits)
    }
    if (before === 0n && !hasExpiry) this.expire(slot)
  }

  /** The reply to INCRBY is not a small number. */
  onIncrbyReply(slot: number, reply: Reply, node: RedisNode, hasExpiry: boolean): IncrbyResult {
    if (reply instanceof ErrorReply) {
      if (this.getTopology(slot).redirected(this.createKeyCommand(slot), node, reply.text)) return REDIRECTED
      this.setErrorReply(slot, reply.text)
      return FAILED
    }
    return this.setCountFromReply(slot, reply, hasExpiry) ? COUNTED : FAILED
  }

  private setCountFromReply(slot: number, reply: Reply, hasExpiry: boolean): boolean {
    if (typeof reply === 'number') this.setCount(slot, reply, hasExpiry)
    else if (typeof reply === 'bigint') this.setExactCount(slot, reply, hasExpiry)
    else {
      if (reply instanceof ErrorReply) this.setErrorReply(slot, reply.text)
      else this.failWithReply(slot, 'the reply is not a count', true)
      return false
    }
    return true
  }

  /** The reply to EXPIRE is not a number. The hits of the counter were added. */
  onExpireReply(slot: number, reply: Reply): void {
    const text = reply instanceof ErrorReply ? reply.text : 'the reply to EXPIRE is not a number'
    if (/^(MOVED|ASK|TRYAGAIN) /.test(text))
      this.expire(slot) // the key was moved after its INCRBY
    else this.failWithReply(slot, text, true)
  }

  /**
   * INCRBY was not run. An overflow is a count nevertheless: with these hits the counter is above 2^63-1, so over any limit. The slot
   * gets the lowest count that it can have.
   */
  setErrorReply(slot: number, text: string): void {
    if (isOverflow(text)) {
      this.batch.counters[slot].expirySetOnConnection = 0 // the reply to EXPIRE is not looked at
      const before = 2n ** 63n - BigInt(this.batch.hitsText(slot))
      this.batch.setPreviousCount(slot, Number(before < COUNT_MAX ? before : COUNT_MAX))
    } else this.failWithReply(slot, text)
  }

  /** Fails the slot with an error reply about its counter or about the server. `isUnknown`: its hits may have been added. */
  failWithReply(slot: number, text: string, isUnknown = false): void {
    const { name } = this.getTopology(slot)
    const { key } = this.batch.counters[slot]
    const message = isWrongServer(text)
      ? `redis ${name}: ${text}`
      : `redis ${name}: counter "${key}": ${text}`
    if (this.lastError?.message !== message || this.lastError.isUnknown !== isUnknown)
      this.lastError = new StoreError(message, isUnknown)
    this.fail(slot, this.lastError)
  }

  fail(slot: number, error: StoreError): void {
    this.batch.counters[slot].expirySetOnConnection = 0 // whether it has its expiry is unknown
    this.batch.setError(slot, error)
  }

  /** Sets the expiry of a counter that turned out to have none. No caller waits for the reply. */
  private expire(slot: number): void {
    const { counters, expirySec } = this.batch
    const counter = counters[slot]
    const command = ['EXPIRE', counter.key, expirySec[slot]]
    const topology = this.getTopology(slot)
    const keyCommand: KeyCommand = {
      key: counter.key,
      sentMs: performance.now(),
      isAsking: false,
      redirects: 0,
      commands: () => [command],
      done: (error, [reply]) => {
        if (error !== null || reply instanceof ErrorReply) counter.expirySetOnConnection = 0 // the next hit tries again
      },
    }
    topology.send(keyCommand, topology.findNode(counter.key))
  }

  /** The hits of one slot as a command of its own, which follows redirections. */
  private createKeyCommand(slot: number): KeyCommand {
    const { counters, expirySec } = this.batch
    const counter = counters[slot]
    let hasExpiry = false
    return {
      key: counter.key,
      sentMs: this.startMs,
      isAsking: false,
      redirects: 0,
      commands: (node) => {
        const commands: (string | number)[][] = [['INCRBY', counter.key, this.hitsText(slot)]]
        hasExpiry = counter.expirySetOnConnection !== node.generation
        if (hasExpiry) commands.push(['EXPIRE', counter.key, expirySec[slot]])
        counter.expirySetOnConnection = node.generation
        return commands
      },
      done: (error, [count, expiry]) => {
        if (error !== null) this.fail(slot, error)
        else this.setCountFromReply(slot, count, hasExpiry)
        if (expiry instanceof ErrorReply && !(count instanceof ErrorReply)) this.onExpireReply(slot, expiry)
        this.finish(1)
      },
    }
  }
}

/** The slots of one node: one write, and counts from its replies. */
class NodePipeline implements NodeCall {
  readonly sentMs: number
  leftCount = 0
  isGivenUp = false
  private readonly parent: PipelinedBatch
  private readonly node: RedisNode
  private readonly slots: readonly number[]
  private readonly slotsCount: number // `slots` may be longer
  private readonly expiring: number[] = [] // indices into `slots` that send EXPIRE, ascending
  private index = 0 // into `slots`, of the next reply
  private expiringIndex = 0
  private nextExpiring = -1 // expiring[expiringIndex], or -1
  private isExpireNext = false // the next reply is that of EXPIRE
  private incrbyResult: IncrbyResult = COUNTED // of the INCRBY before it

  constructor(parent: PipelinedBatch, node: RedisNode, slots: readonly number[], slotsCount: number) {
    this.parent = parent
    this.sentMs = parent.startMs
    this.node = node
    this.slots = slots
    this.slotsCount = slotsCount
  }

  get sample(): Sample {
    const { counters, expirySec } = this.parent.batch
    return { key: counters[this.slots[0]].key, expirySec: expirySec[this.slots[0]] }
  }

  /** Only while the node has no `refusal`. */
  send(): void {
    const { node, parent, slots, slotsCount, expiring } = this
    const { counters } = parent.batch
    const { generation } = node
    for (let i = 0; i < slotsCount; i++) {
      const counter = counters[slots[i]]
      if (counter.expirySetOnConnection === generation) continue
      counter.expirySetOnConnection = generation
      expiring.push(i)
    }
    if (expiring.length > 0) this.nextExpiring = expiring[0]
    this.leftCount = slotsCount + expiring.length
    this.write()
    if (!node.send(writer.take(), this)) writer.renew()
  }

  private write(): void {
    const { parent, slots, slotsCount, expiring } = this
    const { counters, expirySec } = parent.batch
    let next = 0
    for (let i = 0; i < slotsCount; i++) {
      const slot = slots[i]
      writer.incrby(counters[slot], parent.hitsText(slot))
      if (next < expiring.length && expiring[next] === i) {
        writer.expire(counters[slot], expirySec[slot])
        next++
      }
    }
  }

  // hot: a count below 10^15 allocates nothing

  integer(value: number): void {
    if (this.isExpireNext) {
      this.advance()
      return
    }
    const hasExpiry = this.nextExpiring === this.index
    this.parent.setCount(this.slots[this.index], value, hasExpiry)
    if (hasExpiry) this.awaitExpire(COUNTED)
    else this.advance()
  }

  reply(value: Reply): void {
    const slot = this.slots[this.index]
    if (typeof value !== 'bigint' && !(value instanceof ErrorReply)) this.node.onUnexpectedReply()
    if (this.isExpireNext) {
      if (this.incrbyResult === COUNTED) this.parent.onExpireReply(slot, value)
      this.advance()
      return
    }
    const hasExpiry = this.nextExpiring === this.index
    const result = this.parent.onIncrbyReply(slot, value, this.node, hasExpiry)
    if (hasExpiry) this.awaitExpire(result)
    else {
      this.incrbyResult = result
      this.advance()
    }
  }

  fail(error: StoreError): void {
    const first = this.incrbyResult === REDIRECTED ? this.index + 1 : this.index
    const count = this.slotsCount - first
    for (let i = first; i < this.slotsCount; i++) this.parent.fail(this.slots[i], error)
    this.index = this.slotsCount
    if (count > 0) this.parent.finish(count)
  }

  private awaitExpire(result: IncrbyResult): void {
    this.isExpireNext = true
    this.incrbyResult = result
    this.expiringIndex++
    this.nextExpiring = this.expiringIndex < this.expiring.length ? this.expiring[this.expiringIndex] : -1
  }

  private advance(): void {
    const { incrbyResult } = this
    this.isExpireNext = false
    this.incrbyResult = COUNTED
    this.index++
    if (incrbyResult !== REDIRECTED) this.parent.finish(1)
  }
}
