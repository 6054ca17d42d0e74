/**
 * One batch on its way to Redis and back: split over instances and nodes, joined again.
 *
 *     batch           one write each               replies
 *       a   1   ──►   main, node 1:   a c    ──►   before of a, of c ┐
 *       b   1   ──►   per second:     b      ──►   before of b       ┴──► done
 *       c   2
 *
 * All leave at once; an error of one is an error of its slots alone. What the others added stays (spec Q37).
 * A stopping batch goes by check-then-increment.ts first.
 */
import { StoreError } from '../../runtime/errors.ts'
import { BATCH_SLOTS_MAX, type Batch } from '../batch.ts'
import { checkThenIncrement, runScript } from './check-then-increment.ts'
import { isWrongServer, type RedisNode } from './node.ts'
import { ANSWERED, NodePipeline, REDIRECTED, REFUSED, type ReplyKind } from './node-pipeline.ts'
import { ErrorReply, type Reply } from './resp-reader.ts'
import type { KeyCommand, RedisTopology } from './topology.ts'

const EVERY_SLOT = Array.from({ length: BATCH_SLOTS_MAX }, (_, slot) => slot)
const COUNT_MAX = BigInt(Number.MAX_SAFE_INTEGER)

export class PipelinedBatch {
  readonly startMs: number // when its callers began to wait
  readonly batch: Batch
  isSkipped: readonly boolean[] | null = null // slots that get no hits (spec 4.2); null = none
  private readonly instances: readonly RedisTopology[] // main, and the one for limits per second if there is one
  private readonly done: () => void
  private leftCount = 0 // slots without an answer
  private lastError: StoreError | null = null

  constructor(batch: Batch, instances: readonly RedisTopology[], startMs: number, done: () => void) {
    this.batch = batch
    this.instances = instances
    this.startMs = startMs
    this.done = done
  }

  start(): void {
    const { batch, instances } = this
    if (!batch.stopIncrementWhenOverLimit) this.add(EVERY_SLOT, batch.slotsCount)
    else if (instances.length === 1 && instances[0].isSingleNode) runScript(this, instances[0])
    else checkThenIncrement(this)
  }

  /** Adds the hits of the slots, then is done. */
  add(slots: readonly number[], slotsCount: number): void {
    const { instances } = this
    this.leftCount = slotsCount + 1 // 1 for handing them over
    if (instances.length === 1 && instances[0].isSingleNode)
      this.send(instances[0], instances[0].findNode('')!, slots, slotsCount)
    else {
      for (const [node, those] of this.byNode(slots, slotsCount))
        this.send(this.getTopology(those[0]), node, those, those.length)
    }
    this.finished(1)
  }

  /** Slots of the same node together, in their order. */
  private byNode(slots: readonly number[], slotsCount: number): Map<RedisNode, number[]> {
    const byNode = new Map<RedisNode, number[]>()
    for (let i = 0; i < slotsCount; i++) {
      const instance = this.getTopology(slots[i])
      const node = instance.findNode(this.batch.counters[slots[i]].key)
      const those = node === null ? undefined : byNode.get(node)
      if (those !== undefined) those.push(slots[i])
      else if (node !== null) byNode.set(node, [slots[i]])
      else instance.send(this.createKeyCommand(slots[i]), null) // which fails it
    }
    return byNode
  }

  private send(instance: RedisTopology, node: RedisNode, slots: readonly number[], slotsCount: number): void {
    if (slotsCount === 0) return
    const { refusal } = node
    const adding = new NodePipeline(this, node, slots, slotsCount)
    if (refusal === null) adding.send()
    else if (instance.isWaitingFor(node))
      for (let i = 0; i < slotsCount; i++) instance.send(this.createKeyCommand(slots[i]), node)
    else adding.fail(node.error(refusal))
  }

  /** That of limits per second for those, if there is one (spec 3.2). */
  getTopology(slot: number): RedisTopology {
    return this.instances.length === 2 && this.batch.isPerSecond[slot] ? this.instances[1] : this.instances[0]
  }

  /** What INCRBY carries. */
  hitsText(slot: number): string {
    if (this.isSkipped?.[slot]) return '0'
    return this.batch.hits[slot] === 1 ? '1' : this.batch.hitsText(slot)
  }

  // answers of slots

  /** For who sends the slots by another way than `add`. */
  expect(slotsCount: number): void {
    this.leftCount = slotsCount
  }

  /** So many slots have their answers. */
  finished(count: number): void {
    this.leftCount -= count
    if (this.leftCount === 0) this.done()
  }

  /** INCRBY says `count`. A counter that turns out to be new has no expiry, unless EXPIRE came with it. */
  counted(slot: number, count: number, hasExpiry: boolean): void {
    const hits = this.batch.hits[slot]
    const before = count - hits
    if (before < 0 || hits > Number.MAX_SAFE_INTEGER || this.isSkipped !== null)
      this.countedExactly(slot, BigInt(count), hasExpiry)
    else {
      this.batch.setPreviousCount(slot, before)
      if (before === 0 && !hasExpiry) this.expire(slot)
    }
  }

  private countedExactly(slot: number, count: bigint, hasExpiry: boolean): void {
    const before = count - BigInt(this.hitsText(slot))
    if (before < 0n) this.wrong(slot, `its count is negative: ${before}`)
    else {
      const hits = this.isSkipped?.[slot] ? this.batch.hits[slot] : 0
      this.batch.setPreviousCount(slot, Number(before < COUNT_MAX ? before : COUNT_MAX) - hits)
    }
    if (before === 0n && !hasExpiry) this.expire(slot)
  }

  /** INCRBY has a reply that is no small number. */
  replied(slot: number, value: Reply, node: RedisNode, hasExpiry: boolean): ReplyKind {
    if (typeof value === 'number') this.counted(slot, value, hasExpiry)
    else if (typeof value === 'bigint') this.countedExactly(slot, value, hasExpiry)
    else if (!(value instanceof ErrorReply)) {
      this.wrong(slot, 'the reply is no count')
      return REFUSED
    } else {
      if (this.getTopology(slot).redirected(this.createKeyCommand(slot), node, value.text)) return REDIRECTED
      this.wrong(slot, value.text)
      return REFUSED
    }
    return ANSWERED
  }

  /** EXPIRE of a counter whose hits were added has a reply that is no number. */
  expired(slot: number, value: Reply): void {
    const text = value instanceof ErrorReply ? value.text : 'the reply to EXPIRE is no number'
    if (/^(MOVED|ASK|TRYAGAIN) /.test(text))
      this.expire(slot) // it has moved just now, with its hits
    else this.wrong(slot, text)
  }

  /** Redis has said what is wrong with the counter, or with itself. */
  wrong(slot: number, text: string): void {
    const { name } = this.getTopology(slot)
    const { counters } = this.batch
    const what = isWrongServer(text)
      ? `redis ${name}: ${text}`
      : `redis ${name}: counter "${counters[slot].key}": ${text}`
    if (this.lastError?.message !== what) this.lastError = new StoreError(what)
    this.failed(slot, this.lastError)
  }

  failed(slot: number, error: StoreError): void {
    this.batch.counters[slot].expirySetOnConnection = 0 // nobody knows whether it has its expiry
    this.batch.setError(slot, error)
  }

  /** Sets the expiry of a counter that turned out to have none. Nobody waits for it. */
  expire(slot: number): void {
    const { counters, expirySec } = this.batch
    const counter = counters[slot]
    const command = ['EXPIRE', counter.key, expirySec[slot]]
    const instance = this.getTopology(slot)
    const errand: KeyCommand = {
      key: counter.key,
      sentMs: performance.now(),
      isAsking: false,
      redirects: 0,
      commands: () => [command],
      done: (error, [reply]) => {
        if (error !== null || reply instanceof ErrorReply) counter.expirySetOnConnection = 0 // the next hit tries again
      },
    }
    instance.send(errand, instance.findNode(counter.key))
  }

  /** The slot's hits, on their own way. */
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
        if (error !== null) this.failed(slot, error)
        else if (count instanceof ErrorReply) this.wrong(slot, count.text)
        else if (typeof count === 'number') this.counted(slot, count, hasExpiry)
        else if (typeof count === 'bigint') this.countedExactly(slot, count, hasExpiry)
        else this.wrong(slot, 'the reply is no count')
        if (expiry instanceof ErrorReply && !(count instanceof ErrorReply)) this.expired(slot, expiry)
        this.finished(1)
      },
    }
  }
}
