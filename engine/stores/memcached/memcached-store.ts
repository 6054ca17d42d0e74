/**
 * The memcached store: read, answer, then add (spec 4.3).
 *
 *     add(batch) ──► gets, one per node ──► counts ──► done(batch) ──► additions: incr, or add for the first hit
 *                      │                      └ + our own hits that memcached has not confirmed yet
 *                      └ no reply in time ──► StoreError for its keys, which then get no hits
 *
 * Within a request equal keys come at the same count, as in the reference. Requests of one worker are counted one after
 * the other, in one batch and over several, so a worker alone never lets a limit be passed; the reference lets requests
 * pass together that read the same count. Gives up: between workers and processes that race is still there, for a trip
 * or two. (An incr before the answer would close it, and would not be what spec 4.3 says.)
 *
 * An error is an error for its callers, not a count of 0, unless MEMCACHE_ERRORS_AS_ZERO says so; then too only for the
 * keys it concerns: another key of the request, where it was read, still counts. Nothing is sent twice.
 */
import { StoreError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/messages.ts'
import type { Stats } from '../../stats/stats.ts'
import type { Batch } from '../batch.ts'
import type { CounterStore } from '../counter-store.ts'
import { HealthReporter, type InstanceHealth, type OnHealth } from '../store-health.ts'
import { shownBadKey, shownKey, shownKeys, wireKey } from './key.ts'
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

/** Batches that wait for their counts at most. Beyond: hits join the next batch; that one full: callers get an error. */
const TRIPS_MAX = 16

const RELATIVE_EXPIRY_MAX_SEC = 2_592_000 // memcached reads more as a date (Q4)
const COUNT_MAX = Number.MAX_SAFE_INTEGER // over every limit; counts end here, for memcached's turn to 0 at 2^64
const VALUE_SHOWN_MAX = 100 // characters

const MALFORMED = new StoreError('malformed: key is too long or contains invalid characters')

interface MemcacheTrip {
  batch: Batch
  nowSec: number
  done: (batch: Batch) => void
  sharesLeft: number
}

/** What one node has of a batch. */
interface Share {
  trip: MemcacheTrip
  node: MemcacheNode
  slots: number[]
  keys: string[] // as on the wire, per slot
  values: Map<string, string>
}

export class MemcacheStore implements CounterStore {
  readonly isSynchronous = false

  private readonly isErrorZero: boolean
  private readonly report: MemcacheReport
  private readonly health: HealthReporter | null
  private readonly nodes: MemcacheNodes
  private readonly pending: PendingIncrements
  private tripsCount = 0
  private isClosing = false
  private whenIdle: (() => void) | null = null

  constructor(options: MemcacheOptions, { log, stats, onHealth }: MemcacheHooks) {
    this.isErrorZero = options.isErrorZero
    this.report = new MemcacheReport(log, stats)
    this.health = onHealth ? new HealthReporter(() => this.instancesHealth(), onHealth) : null
    this.nodes = new MemcacheNodes(options, this.report, () => this.health?.scheduleReport())
    this.pending = new PendingIncrements(this.report, () => this.lookIdle())
  }

  get hasCapacity(): boolean {
    return this.tripsCount < TRIPS_MAX
  }

  /** Resolves when the nodes are known; they need not be there. */
  connect(): Promise<void> {
    return this.nodes.open()
  }

  /** Resolves when all hits are added or given up: some timeouts from now at most. */
  async close(): Promise<void> {
    this.isClosing = true
    this.health?.close()
    this.nodes.freeze()
    if (this.tripsCount + this.pending.count > 0) {
      await new Promise<void>((resolve) => {
        this.whenIdle = resolve
      })
    }
    this.nodes.close()
  }

  add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void {
    batch.countRequestsAtOnce()
    const trip: MemcacheTrip = { batch, nowSec, done, sharesLeft: 0 }
    const refusal = this.refusal()
    const shares = refusal === null ? this.split(trip) : []
    if (refusal !== null) for (let slot = 0; slot < batch.slotsCount; slot++) this.fail(batch, slot, refusal)
    if (shares.length === 0) {
      done(batch)
      return
    }
    this.tripsCount++
    trip.sharesLeft = shares.length
    for (const share of shares) this.read(share)
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

  private split(trip: MemcacheTrip): Share[] {
    const { batch } = trip
    const shares: Share[] = []
    const shareAt: (Share | undefined)[] = []
    for (let slot = 0; slot < batch.slotsCount; slot++) {
      const key = wireKey(batch.counters[slot].key)
      if (key === null) {
        this.refuseKey(batch, slot)
        continue
      }
      const place = this.nodes.getNodeIndex(batch.counters[slot].key)
      let share = shareAt[place]
      if (share === undefined) {
        share = { trip, node: this.nodes.at(place), slots: [], keys: [], values: new Map() }
        shareAt[place] = share
        shares.push(share)
      }
      share.slots.push(slot)
      share.keys.push(key)
    }
    return shares
  }

  private refuseKey(batch: Batch, slot: number): void {
    const shown = shownBadKey(batch.counters[slot].key)
    this.report.count('multiget.__code=error')
    this.report.logError('key', () => `Error multi-getting memcache keys (${shown}): ${MALFORMED.message}`)
    this.fail(batch, slot, MALFORMED)
  }

  private read(share: Share): void {
    const { node, keys, values } = share
    this.report.count('keys_requested', keys.length)
    node.send(
      `gets ${keys.join(' ')}\r\n`,
      (error) => this.answer(share, error),
      (key, value) => void values.set(key, value),
    )
  }

  /** A share was read, or not. The last one answers the batch; only then are its hits sent. */
  private answer(share: Share, error: Error | null): void {
    const { trip } = share
    const additions = error === null || this.isErrorZero ? this.readCounts(share) : []
    if (error === null) {
      this.report.count('multiget.__code=success')
      this.report.count('keys_found', share.values.size)
    } else {
      this.failShare(share, error)
    }
    if (--trip.sharesLeft === 0) {
      this.tripsCount--
      trip.done(trip.batch) // which may use it again at once
    }
    for (const addition of additions) this.pending.send(addition)
    this.lookIdle()
  }

  private readCounts({ trip, node, slots, keys, values }: Share): PendingIncrement[] {
    const { batch, nowSec } = trip
    const additions: PendingIncrement[] = []
    for (let i = 0; i < slots.length; i++) {
      const key = keys[i]
      const before = Math.min(this.parseCount(key, values.get(key)) + this.pending.waiting(key), COUNT_MAX)
      batch.setPreviousCount(slots[i], before)
      const hits = Math.min(batch.hits[slots[i]], COUNT_MAX - before)
      const addition = { node, key, hits, expiry: toExpiry(batch.expirySec[slots[i]], nowSec) }
      this.pending.expect(addition)
      additions.push(addition)
    }
    return additions
  }

  /** A 64-bit number (Q39); what is none counts as 0, as spec 4.3 has it. */
  private parseCount(key: string, value = '0'): number {
    if (/^\+?\d{1,20} *$/.test(value)) return Number(value)
    const shown = JSON.stringify(value.slice(0, VALUE_SHOWN_MAX))
    this.report.logError(
      'value',
      () => `Unexpected non-numeric value in memcached: ${shownKey(key)} ${shown}`,
    )
    return 0
  }

  private failShare({ trip, node, slots, keys }: Share, error: Error): void {
    this.report.count('multiget.__code=error')
    this.report.logError(
      'multi-get',
      () => `Error multi-getting memcache keys (${shownKeys(keys)}): ${error.message}`,
    )
    const failure = new StoreError(`memcache ${node.address.text}: ${error.message}`)
    for (const slot of slots) this.fail(trip.batch, slot, failure)
  }

  private fail(batch: Batch, slot: number, error: StoreError): void {
    if (this.isErrorZero) batch.setPreviousCount(slot, 0)
    else batch.setError(slot, error)
  }

  private instancesHealth(): InstanceHealth[] {
    const { working } = this.nodes
    return [{ name: 'memcached', isConnected: working === 'ok', working }]
  }

  private lookIdle(): void {
    if (this.tripsCount + this.pending.count === 0) this.whenIdle?.()
  }
}

function toExpiry(lengthSec: number, nowSec: number): number {
  return lengthSec > RELATIVE_EXPIRY_MAX_SEC ? nowSec + lengthSec : lengthSec
}
