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
  ASKED_BYTES_ALL_MAX,
  ASKED_BYTES_FAIR_MAX,
  CALLS_ALL_MAX,
  CALLS_FAIR_MAX,
  HELD_BYTES_ALL_MAX,
  HELD_BYTES_MAX,
} from './bounds.ts'

/** Ends a connection for what it keeps, which releases all but what is just being unpacked of it at once. */
type End = () => void

/** Of one thread. */
export class ConnectionQuotas {
  heldBytes = 0
  askedBytes = 0
  callsCount = 0
  private readonly members = new Set<ConnectionQuota>() // as many as connections
  private isChecking = false

  join(end: End): ConnectionQuota {
    const share = new ConnectionQuota(this, end)
    this.members.add(share)
    return share
  }

  leave(share: ConnectionQuota): void {
    this.members.delete(share)
  }

  /** Whether there is room for so many more bytes. Ends others that keep more than `asking`, as far as it needs. */
  hasRoom(bytes: number, asking: ConnectionQuota | null): boolean {
    while (this.heldBytes + bytes > HELD_BYTES_ALL_MAX) {
      let most = asking
      for (const each of this.members) if (most === null || each.heldBytes > most.heldBytes) most = each
      if (most === null || most === asking) return false
      this.members.delete(most)
      const before = this.heldBytes
      most.end()
      if (this.heldBytes === before) return false // it gave nothing back, so ending more of them would not either
    }
    return true
  }

  /** Soon, since who keeps is in the middle of something. */
  checkSoon(): void {
    if (this.isChecking) return
    this.isChecking = true
    setImmediate(() => {
      this.isChecking = false
      for (const each of this.members) if (each.heldBytes > HELD_BYTES_MAX) each.end()
      this.hasRoom(0, null)
    })
  }
}

/** Of one connection. */
export class ConnectionQuota {
  heldBytes = 0
  private askedBytes = 0
  private abandonedCount = 0
  private callsCount = 0 // abandoned ones included
  private readonly all: ConnectionQuotas
  readonly end: End

  constructor(all: ConnectionQuotas, end: End) {
    this.all = all
    this.end = end
  }

  /** Whether the connection may have one more call. */
  get isOpenForCalls(): boolean {
    if (this.abandonedCount >= ABANDONED_CALLS_MAX) return false
    return this.all.callsCount < CALLS_ALL_MAX || this.callsCount < CALLS_FAIR_MAX
  }

  callBegins(): void {
    this.callsCount++
    this.all.callsCount++
  }

  callEnds(): void {
    this.callsCount--
    this.all.callsCount--
  }

  /** It goes on in the engine, and `callReturns` when that is over. */
  callAbandoned(): void {
    this.abandonedCount++
  }

  callReturns(): void {
    this.abandonedCount--
    this.callEnds()
  }

  /** The engine gets a message of so many bytes. False: others wait for it with too much already. */
  charge(bytes: number): boolean {
    const isFull = this.all.askedBytes + bytes > ASKED_BYTES_ALL_MAX
    if (isFull && this.askedBytes + bytes > ASKED_BYTES_FAIR_MAX) return false
    this.askedBytes += bytes
    this.all.askedBytes += bytes
    return true
  }

  settle(bytes: number): void {
    this.askedBytes -= bytes
    this.all.askedBytes -= bytes
  }

  reserve(bytes: number): boolean {
    if (this.heldBytes + bytes > HELD_BYTES_MAX || !this.all.hasRoom(bytes, this)) return false
    this.add(bytes)
    return true
  }

  reserveUnchecked(bytes: number): void {
    this.add(bytes)
    if (this.heldBytes > HELD_BYTES_MAX || this.all.heldBytes > HELD_BYTES_ALL_MAX) this.all.checkSoon()
  }

  release(bytes: number): void {
    this.add(-bytes)
  }

  private add(bytes: number): void {
    this.heldBytes += bytes
    this.all.heldBytes += bytes
  }
}
