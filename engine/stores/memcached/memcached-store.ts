/**
 * The memcached store: read, respond, then add (spec 4.3).
 *
 *     add(batch) ──► gets, one per node ──► counts ──► done(batch) ──► increments: incr, or add for the first hit
 *                      │                      └ + hits of this worker that memcached has not confirmed yet
 *                      └ no reply in time ──► StoreError for its keys, which then get no hits
 *
 * Equal keys of a request get the same count, as in envoyproxy/ratelimit. Requests of one worker are counted one after the
 * other, within a batch and across batches, so one worker alone never exceeds a limit; envoyproxy/ratelimit admits all requests
 * that read the same count. Between workers and processes that race remains for a round trip or two. (An incr before the
 * response would close it, but spec 4.3 requires this order.)
 *
 * Errors are reported to callers and not treated as a count of 0, unless MEMCACHE_ERRORS_AS_ZERO is set; then only for the keys
 * concerned: other keys of the request still count. A value that is not a number is such an error. Nothing is sent twice.
 *
 * Since hits are added after the response, memcached may refuse hits whose calls have been answered. Those are lost; the next ones
 * on that counter fail until memcached takes writes again, and the breaker opens (node.ts).
 */
import { StoreError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/messages.ts'
import type { Stats } from '../../stats/stats.ts'
import type { Batch } from '../batch.ts'
import type { CounterStore } from '../counter-store.ts'
import { HealthReporter, type InstanceHealth, type OnHealth } from '../store-health.ts'
import { formatKey, toWireKey } from './key.ts'
import type { MemcacheNode } from './node.ts'
import { MemcacheNodes, NO_SERVERS } from './nodes.ts'
import type { MemcacheOptions } from './options.ts'
import { type PendingIncrement, PendingIncrements } from './pending-increments.ts'
import { MemcacheReport } from './report.ts'

export interface MemcacheHooks {
  log: Log
  stats: Stats
  onHealth?: OnHealth // on every change
}

/** Batches that wait for their counts. Beyond, hits collect in the next batch; when that is full, calls fail. */
const IN_FLIGHT_BATCHES_MAX = 64

/** While a node has nothing to do: one that does not reply must not keep hits from the others. */
const IN_FLIGHT_BATCHES_IDLE_MAX = 1_024

const RELATIVE_EXPIRY_MAX_SEC = 2_592_000 // memcached takes more as a date (Q4)
const COUNT_MAX = Number.MAX_SAFE_INTEGER // over any limit; counts end here, as memcached wraps to 0 at 2^64
const COUNT_CHARS_MAX = 24 // longer values are not counters: 20 digits suffice
const VALUE_LOGGED_MAX = 100 // characters

const MALFORMED = new StoreError('malformed: key is too long or contains invalid characters')

interface BatchInFlight {
  batch: Batch
  nowSec: number
  done: (batch: Batch) => void
  pendingShares: number
}

/** The part of a batch that belongs to one node. */
interface NodeShare {
  inFlight: BatchInFlight
  node: MemcacheNode
  slots: number[]
  keys: string[] // wire keys, per slot
  counts: Map<string, number> // by key; NaN = its value is not a number
}

export class MemcacheStore implements CounterStore {
  readonly isSynchronous = false

  private readonly isErrorZero: boolean
  private readonly report: MemcacheReport
  private readonly health: HealthReporter | null
  private readonly nodes: MemcacheNodes
  private readonly pending: PendingIncrements
  private inFlightCount = 0
  private isClosing = false
  private onIdle: (() => void) | null = null

  constructor(options: MemcacheOptions, { log, stats, onHealth }: MemcacheHooks) {
    this.isErrorZero = options.isErrorZero
    this.report = new MemcacheReport(log, stats)
    this.health = onHealth ? new HealthReporter(() => this.instancesHealth(), onHealth) : null
    this.nodes = new MemcacheNodes(options, this.report, () => this.health?.scheduleReport())
    this.pending = new PendingIncrements(this.report, () => this.checkIdle())
  }

  get hasCapacity(): boolean {
    if (this.inFlightCount < IN_FLIGHT_BATCHES_MAX) return true
    if (this.inFlightCount >= IN_FLIGHT_BATCHES_IDLE_MAX) return false
    return this.nodes.isAnyIdle || this.nodes.areAllBreakersOpen // with all open, hits fail immediately
  }

  /** Resolves when the nodes are known; they need not be reachable. */
  connect(): Promise<void> {
    return this.nodes.open()
  }

  /** Resolves when all hits are added or have failed: after a few timeouts at most. */
  async close(): Promise<void> {
    this.isClosing = true
    this.health?.close()
    this.nodes.freeze()
    if (this.inFlightCount + this.pending.count > 0) {
      await new Promise<void>((resolve) => {
        this.onIdle = resolve
      })
    }
    this.nodes.close()
  }

  add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void {
    batch.countRequestsAtOnce()
    const inFlight: BatchInFlight = { batch, nowSec, done, pendingShares: 0 }
    const refusal = this.refusal()
    const shares = refusal === null ? this.splitByNode(inFlight) : []
    if (refusal !== null) for (let slot = 0; slot < batch.slotsCount; slot++) this.fail(batch, slot, refusal)
    if (shares.length === 0) {
      done(batch)
      return
    }
    this.inFlightCount++
    inFlight.pendingShares = shares.length
    for (const share of shares) this.read(share)
  }

  onLate(): void {
    this.nodes.breakers.onLate()
  }

  /** Why nothing can be read now, or null. */
  private refusal(): StoreError | null {
    if (this.isClosing) return new StoreError('memcache: closing')
    if (!this.hasCapacity) return new StoreError('memcache: too many batches in flight')
    if (this.nodes.count > 0) return null
    this.report.count('multiget.__code=error')
    this.report.logError('multi-get', () => `Error multi-getting memcache keys: ${NO_SERVERS}`)
    return new StoreError(NO_SERVERS)
  }

  private splitByNode(inFlight: BatchInFlight): NodeShare[] {
    const { batch } = inFlight
    const shares: NodeShare[] = []
    const sharesByNode: (NodeShare | undefined)[] = []
    for (let slot = 0; slot < batch.slotsCount; slot++) {
      const key = toWireKey(batch.counters[slot].key)
      if (key === null) {
        this.failInvalidKey(batch, slot)
        continue
      }
      const nodeIndex = this.nodes.getNodeIndex(batch.counters[slot].key)
      let share = sharesByNode[nodeIndex]
      if (share === undefined) {
        share = { inFlight, node: this.nodes.at(nodeIndex), slots: [], keys: [], counts: new Map() }
        sharesByNode[nodeIndex] = share
        shares.push(share)
      }
      share.slots.push(slot)
      share.keys.push(key)
    }
    return shares
  }

  private failInvalidKey(batch: Batch, slot: number): void {
    this.report.count('multiget.__code=error')
    this.report.logError('key', `Error multi-getting memcache keys: ${MALFORMED.message}`)
    this.fail(batch, slot, MALFORMED)
  }

  private read(share: NodeShare): void {
    const { node, keys, counts } = share
    this.report.count('keys_requested', keys.length)
    node.read(
      keys,
      (error) => this.onRead(share, error),
      (key, value) => void counts.set(key, this.parseCount(node, value)),
    )
  }

  /** A share was read or has failed. The last one completes the batch; only then are its hits sent. */
  private onRead(share: NodeShare, error: Error | null): void {
    const { inFlight } = share
    const increments = error === null || this.isErrorZero ? this.setCounts(share) : []
    if (error === null) {
      this.report.count('multiget.__code=success')
      this.report.count('keys_found', share.counts.size)
    } else {
      this.failShare(share, error)
    }
    if (--inFlight.pendingShares === 0) {
      this.inFlightCount--
      inFlight.done(inFlight.batch) // may reuse the batch immediately
    }
    for (const increment of increments) this.pending.send(increment)
    this.checkIdle()
  }

  private setCounts({ inFlight, node, slots, keys, counts }: NodeShare): PendingIncrement[] {
    const { batch, nowSec } = inFlight
    const increments: PendingIncrement[] = []
    for (let i = 0; i < slots.length; i++) {
      const key = keys[i]
      const count = counts.get(key) ?? 0
      const isNumber = !Number.isNaN(count)
      const reason = isNumber ? node.getRefusal(key) : 'its value is not a number'
      if (reason !== null) this.fail(batch, slots[i], counterError(node, key, reason))
      if (reason !== null && !this.isErrorZero) continue
      const before = Math.min((isNumber ? count : 0) + this.pending.getHits(key), COUNT_MAX)
      if (reason === null) batch.setPreviousCount(slots[i], before)
      const hits = Math.min(batch.hits[slots[i]], COUNT_MAX - before)
      const increment = { node, key, hits, expiry: toExpiry(batch.expirySec[slots[i]], nowSec) }
      this.pending.expect(increment)
      increments.push(increment)
    }
    return increments
  }

  /** The value as a count, 64 bits (Q39); NaN if memcached would not increment it. */
  private parseCount(node: MemcacheNode, value: string): number {
    if (value.length <= COUNT_CHARS_MAX && /^\+?\d{1,20} *$/.test(value)) return Number(value)
    const valueText = JSON.stringify(value.slice(0, VALUE_LOGGED_MAX))
    this.report.logError(
      'value',
      () => `Unexpected non-numeric value in memcached at ${node.address.text}: ${valueText}`,
    )
    return Number.NaN
  }

  private failShare({ inFlight, node, slots }: NodeShare, error: Error): void {
    this.report.count('multiget.__code=error')
    // while its circuit breaker is open, that is one line of its own
    if (!node.isBreakerOpen) {
      this.report.logError(
        `multi-get ${node.address.text}`,
        () => `Error multi-getting memcache keys at ${node.address.text}: ${error.message}`,
      )
    }
    const failure = new StoreError(`memcache ${node.address.text}: ${error.message}`)
    for (const slot of slots) this.fail(inFlight.batch, slot, failure)
  }

  private fail(batch: Batch, slot: number, error: StoreError): void {
    if (this.isErrorZero) batch.setPreviousCount(slot, 0)
    else batch.setError(slot, error)
  }

  private instancesHealth(): InstanceHealth[] {
    const { working, breakers } = this.nodes
    const { open } = breakers
    return [
      {
        ...{ name: 'memcached', isConnected: working === 'ok', working },
        ...(open.length > 0 && { openBreakers: open }),
      },
    ]
  }

  private checkIdle(): void {
    if (this.inFlightCount + this.pending.count === 0) this.onIdle?.()
  }
}

function counterError({ address }: MemcacheNode, key: string, what: string): StoreError {
  return new StoreError(`memcache ${address.text}: counter "${formatKey(key)}": ${what}`)
}

function toExpiry(lengthSec: number, nowSec: number): number {
  return lengthSec > RELATIVE_EXPIRY_MAX_SEC ? nowSec + lengthSec : lengthSec
}
