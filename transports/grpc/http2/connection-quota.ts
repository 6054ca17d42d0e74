/**
 * What one connection uses of its thread's limits: bytes held for it, and calls that the engine has not completed.
 *
 *     reserve             may be refused: too much for this connection
 *     reserveUnchecked    cannot be refused, so the connection closes when it is too much
 *     both                too much for the thread: the connection that holds most closes, which frees its bytes
 *     charge              messages in the engine: they stay until it is done, so too many are refused and close nothing
 *
 * Every reservation, charge and call is returned in all cases, also after the connection has closed.
 */
import {
  ABANDONED_CALLS_MAX,
  CALLS_ALL_MAX,
  CALLS_FAIR_MAX,
  CHARGED_BYTES_ALL_MAX,
  CHARGED_BYTES_FAIR_MAX,
  HELD_BYTES_ALL_MAX,
  HELD_BYTES_MAX,
} from './bounds.ts'

/** Closes a connection, which releases at once all bytes held for it except those being inflated. */
type Evict = () => void

/** The totals of one thread. */
export class ConnectionQuotas {
  heldBytes = 0
  chargedBytes = 0
  callsCount = 0
  private readonly members = new Set<ConnectionQuota>() // as many as connections
  private isCheckScheduled = false

  join(evict: Evict): ConnectionQuota {
    const quota = new ConnectionQuota(this, evict)
    this.members.add(quota)
    return quota
  }

  leave(quota: ConnectionQuota): void {
    this.members.delete(quota)
  }

  /** Whether there is room for so many more bytes. Evicts connections that hold more than `requester` as needed. */
  hasRoom(bytes: number, requester: ConnectionQuota | null): boolean {
    while (this.heldBytes + bytes > HELD_BYTES_ALL_MAX) {
      let largest = requester
      for (const each of this.members)
        if (largest === null || each.heldBytes > largest.heldBytes) largest = each
      if (largest === null || largest === requester) return false
      this.members.delete(largest)
      const bytesBefore = this.heldBytes
      largest.evict()
      if (this.heldBytes === bytesBefore) return false // nothing was released, so further evictions would not help
    }
    return true
  }

  /** Deferred, since the connection concerned may be in the middle of reading. */
  scheduleCheck(): void {
    if (this.isCheckScheduled) return
    this.isCheckScheduled = true
    setImmediate(() => {
      this.isCheckScheduled = false
      for (const each of this.members) if (each.heldBytes > HELD_BYTES_MAX) each.evict()
      this.hasRoom(0, null)
    })
  }
}

/** The share of one connection. */
export class ConnectionQuota {
  heldBytes = 0
  private chargedBytes = 0
  private abandonedCount = 0
  private callsCount = 0 // abandoned ones included
  private readonly quotas: ConnectionQuotas
  readonly evict: Evict

  constructor(quotas: ConnectionQuotas, evict: Evict) {
    this.quotas = quotas
    this.evict = evict
  }

  /** Whether the connection may have one more call. */
  get isOpenForCalls(): boolean {
    if (this.abandonedCount >= ABANDONED_CALLS_MAX) return false
    return this.quotas.callsCount < CALLS_ALL_MAX || this.callsCount < CALLS_FAIR_MAX
  }

  onCallStart(): void {
    this.callsCount++
    this.quotas.callsCount++
  }

  onCallEnd(): void {
    this.callsCount--
    this.quotas.callsCount--
  }

  /** The call continues in the engine; `onAbandonedCallEnd` follows. */
  onCallAbandoned(): void {
    this.abandonedCount++
  }

  onAbandonedCallEnd(): void {
    this.abandonedCount--
    this.onCallEnd()
  }

  /** Counts a message that the engine gets. False: too many bytes are in the engine already. */
  charge(bytes: number): boolean {
    const isFull = this.quotas.chargedBytes + bytes > CHARGED_BYTES_ALL_MAX
    if (isFull && this.chargedBytes + bytes > CHARGED_BYTES_FAIR_MAX) return false
    this.chargedBytes += bytes
    this.quotas.chargedBytes += bytes
    return true
  }

  discharge(bytes: number): void {
    this.chargedBytes -= bytes
    this.quotas.chargedBytes -= bytes
  }

  reserve(bytes: number): boolean {
    if (this.heldBytes + bytes > HELD_BYTES_MAX || !this.quotas.hasRoom(bytes, this)) return false
    this.add(bytes)
    return true
  }

  reserveUnchecked(bytes: number): void {
    this.add(bytes)
    if (this.heldBytes > HELD_BYTES_MAX || this.quotas.heldBytes > HELD_BYTES_ALL_MAX)
      this.quotas.scheduleCheck()
  }

  release(bytes: number): void {
    this.add(-bytes)
  }

  private add(bytes: number): void {
    this.heldBytes += bytes
    this.quotas.heldBytes += bytes
  }
}
