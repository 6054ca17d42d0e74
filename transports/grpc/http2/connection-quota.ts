/**
 * What one connection takes of what its thread has: bytes kept for it, calls that the engine has not answered.
 *
 *     hold    may be refused: too much for this connection
 *     keep    cannot be refused, so the connection ends when it is too much
 *     both    too much for the thread: the connection that keeps most ends, since what it keeps goes with it
 *     ask     messages the engine has: they stay until it answers, so too much of them ends nobody and is refused
 *
 * Every hold, keep, ask and call is given back, whatever happens, also after the connection has gone.
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

/** Ends a connection for what it keeps, which releases all but what is just being unpacked of it at once. */
type Evict = () => void

/** Of one thread. */
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

  /** Whether there is room for so many more bytes. Ends others that keep more than `asking`, as far as it needs. */
  hasRoom(bytes: number, requester: ConnectionQuota | null): boolean {
    while (this.heldBytes + bytes > HELD_BYTES_ALL_MAX) {
      let largest = requester
      for (const each of this.members)
        if (largest === null || each.heldBytes > largest.heldBytes) largest = each
      if (largest === null || largest === requester) return false
      this.members.delete(largest)
      const bytesBefore = this.heldBytes
      largest.evict()
      if (this.heldBytes === bytesBefore) return false // it gave nothing back, so ending more of them would not either
    }
    return true
  }

  /** Soon, since who keeps is in the middle of something. */
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

/** Of one connection. */
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

  /** It goes on in the engine, and `callReturns` when that is over. */
  onCallAbandoned(): void {
    this.abandonedCount++
  }

  onAbandonedCallEnd(): void {
    this.abandonedCount--
    this.onCallEnd()
  }

  /** The engine gets a message of so many bytes. False: others wait for it with too much already. */
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
