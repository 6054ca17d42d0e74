/**
 * One connection to one Redis, restored whenever it is lost.
 *
 *     locate ── open a socket (socket.ts) ──► connected ──► lost ── back-off ──┐
 *       ▲                                                                      │
 *       └──────────────────────────────────────────────────────────────────────┘
 *
 * Each attempt has a new socket, so nothing of an old connection is sent again, and resolves the server's address anew (from
 * a setting or a sentinel). `onLost` reports once that commands without a reply may have run.
 */

import { backoffMs } from '../../runtime/backoff.ts'
import { errorText } from '../connect-retry.ts'
import type { ConnectionMetrics } from '../connection-metrics.ts'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'
import type { ReplySink } from './resp.ts'
import { RedisSocket } from './socket.ts'

export interface ConnectionOptions {
  locate: () => Promise<RedisAddress> // current address of the server; called before each attempt
  tls: TlsTo | null // null = plain
  isMasterOnly: boolean // a replica is refused
  timeoutMs: number // of one attempt, from the first packet to the last reply of the handshake; shorter for a server known to be faster
  sink: ReplySink
  pool: ConnectionMetrics | null
  onConnected: () => void
  onLost: (reason: string) => void // before the next attempt; commands without a reply may have run
  onFailed: (reason: string) => void // an attempt in the background failed
}

const RECONNECT = { initialMs: 125, maxMs: 500 } // envoyproxy/ratelimit waits up to 4 s, in which Redis may be back unnoticed
const ATTEMPT_MS_MIN = 1_000
const ATTEMPT_FACTOR = 4 // of the last handshake that succeeded
const STABLE_MS = 4_000 // a connection that lasted this long resets the back-off

let generationsCount = 0 // of this thread

export class RedisConnection {
  isConnected = false
  generation = 0 // number of the current connection, from 1, unique in this thread; changes with each reconnect
  address: RedisAddress | null = null // of the current or last attempt
  private readonly options: ConnectionOptions
  private socket: RedisSocket | null = null
  private failures = 0 // in a row
  private connectedMs = 0
  private handshakeMs = 0 // of the last attempt that succeeded; 0 = none
  private timer: NodeJS.Timeout | undefined
  private isClosing = false
  private isKept = false // reconnects automatically

  constructor(options: ConnectionOptions) {
    this.options = options
  }

  /** One attempt. Rejects with its error. After the first success, a lost connection is restored automatically. */
  async open(): Promise<void> {
    const address = await this.options.locate()
    if (this.isClosing) throw new Error('closing')
    const startedMs = performance.now()
    const socket: RedisSocket = new RedisSocket({
      ...this.options,
      address,
      timeoutMs: this.attemptMs,
      onEnded: (reason) => this.onLost(socket, reason),
    })
    this.address = address
    this.socket = socket
    await socket.open()
    if (!socket.isOpen) throw new Error('closed by the other side') // between its event and this line
    this.handshakeMs = performance.now() - startedMs
    this.onConnected()
  }

  /**
   * How long an attempt may take. The system repeats a lost packet of a connection after 1, 3 and 7 s, and a server may fail in the
   * middle of a handshake: a new attempt finds a server that is back sooner than an old one that waits for `timeoutMs`.
   */
  private get attemptMs(): number {
    const { timeoutMs } = this.options
    if (this.handshakeMs === 0) return timeoutMs
    return Math.min(timeoutMs, Math.max(ATTEMPT_MS_MIN, ATTEMPT_FACTOR * this.handshakeMs))
  }

  /** Connects in the background and retries until `close`. */
  keep(): void {
    if (this.isKept) return
    this.isKept = true
    this.attempt()
  }

  /** Skips the rest of the back-off. */
  reconnectNow(): void {
    if (this.timer === undefined) return
    clearTimeout(this.timer)
    this.attempt()
  }

  /** Only while connected. False: the buffer must stay unchanged. */
  write(commands: string | Buffer): boolean {
    return this.socket!.write(commands)
  }

  cork(): void {
    this.socket?.cork()
  }

  /** Closes the connection and opens a new one. */
  drop(reason: string): void {
    const { socket } = this
    if (socket === null) return
    this.onLost(socket, reason)
    socket.end(reason)
  }

  async close(): Promise<void> {
    this.isClosing = true
    if (this.isConnected) this.options.pool?.closed()
    this.isConnected = false
    clearTimeout(this.timer)
    this.timer = undefined
    await this.socket?.close()
  }

  private onConnected(): void {
    this.connectedMs = performance.now()
    this.generation = ++generationsCount
    this.isKept = true
    this.isConnected = true
    this.options.pool?.opened()
    this.options.onConnected()
  }

  private onLost(socket: RedisSocket, reason: string): void {
    if (this.socket !== socket || !this.isConnected) return // a failed attempt, or reported already
    this.isConnected = false
    this.options.pool?.closed()
    if (performance.now() - this.connectedMs > STABLE_MS) this.failures = 0
    this.options.onLost(reason)
    this.scheduleAttempt()
  }

  private scheduleAttempt(): void {
    if (this.isClosing) return
    this.failures++
    const ms = backoffMs(this.failures + 1, RECONNECT, Math.random) // +1: the first wait is randomized, too
    this.timer = setTimeout(() => this.attempt(), ms)
  }

  private attempt(): void {
    this.timer = undefined
    this.open().catch((error) => {
      if (this.isClosing) return
      this.options.onFailed(errorText(error))
      this.scheduleAttempt()
    })
  }
}
