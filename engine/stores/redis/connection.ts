/**
 * One connection to one Redis, kept up for ever.
 *
 *     locate ── socket open (socket.ts) ──► connected ──► lost ── back-off ──┐
 *       ▲                                                                          │
 *       └──────────────────────────────────────────────────────────────────────────┘
 *
 * Every attempt has a socket of its own, so nothing of an old connection can be sent again, and whatever names the server
 * (a setting, a sentinel) is asked anew. What had no reply when the connection went is reported as lost, once, by `onLost`.
 */

import { backoffMs, errorText } from '../connect-retry.ts'
import type { ConnectionMetrics } from '../connection-metrics.ts'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'
import type { ReplySink } from './resp.ts'
import { RedisSocket } from './socket.ts'

export interface ConnectionOptions {
  locate: () => Promise<RedisAddress> // where the server is now; asked before each attempt
  tls: TlsTo | null // null = plain
  isMasterOnly: boolean // a server that says it is a replica is no use
  timeoutMs: number // for one attempt, from the first packet to the last answer to the greeting
  sink: ReplySink
  pool: ConnectionMetrics | null
  onConnected: () => void
  onLost: (reason: string) => void // before the next attempt; commands without a reply were maybe run
  onFailed: (reason: string) => void // of an attempt that nobody waits for
}

const RECONNECT = { initialMs: 125, maxMs: 4_000 } // as the reference (spec 9.3)
const STEADY_MS = RECONNECT.maxMs // a connection that lasted so long was a good one: waits start small again

let generationsCount = 0 // of this thread

export class RedisConnection {
  isConnected = false
  generation = 0 // a number of this connection alone, in this thread, from 1; a new one after each reconnect
  address: RedisAddress | null = null // of the running or last attempt
  private readonly options: ConnectionOptions
  private socket: RedisSocket | null = null
  private failures = 0 // in a row
  private connectedMs = 0
  private timer: NodeJS.Timeout | undefined
  private isClosing = false
  private isKept = false // from the first success on

  constructor(options: ConnectionOptions) {
    this.options = options
  }

  /** One attempt. Rejects with its reason; after the first success the connection comes back by itself. */
  async open(): Promise<void> {
    const address = await this.options.locate()
    if (this.isClosing) throw new Error('closing')
    const socket: RedisSocket = new RedisSocket({
      ...this.options,
      address,
      onEnded: (reason) => this.lost(socket, reason),
    })
    this.address = address
    this.socket = socket
    await socket.open()
    if (!socket.isOpen) throw new Error('closed by the other side') // while this function was waking up
    this.connected()
  }

  /** Tries for ever from now on, without an attempt that anybody waits for. */
  keep(): void {
    if (this.isKept) return
    this.isKept = true
    this.attempt()
  }

  /** Does not wait any longer before the next attempt. */
  reconnectNow(): void {
    if (this.timer === undefined) return
    clearTimeout(this.timer)
    this.attempt()
  }

  /** Only while connected. False: bytes are still needed. */
  write(commands: string | Buffer): boolean {
    return this.socket!.write(commands)
  }

  cork(): void {
    this.socket?.cork()
  }

  /** Gives the connection up and makes a new one. */
  drop(reason: string): void {
    const { socket } = this
    if (socket === null) return
    this.lost(socket, reason)
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

  private connected(): void {
    this.connectedMs = performance.now()
    this.generation = ++generationsCount
    this.isKept = true
    this.isConnected = true
    this.options.pool?.opened()
    this.options.onConnected()
  }

  private lost(socket: RedisSocket, reason: string): void {
    if (this.socket !== socket || !this.isConnected) return // an attempt that failed, or told already
    this.isConnected = false
    this.options.pool?.closed()
    if (performance.now() - this.connectedMs > STEADY_MS) this.failures = 0
    this.options.onLost(reason)
    this.attemptLater()
  }

  private attemptLater(): void {
    if (this.isClosing) return
    this.failures++
    const ms = backoffMs(this.failures + 1, RECONNECT, Math.random) // +1: the first wait is spread as well
    this.timer = setTimeout(() => this.attempt(), ms)
  }

  private attempt(): void {
    this.timer = undefined
    this.open().catch((error) => {
      if (this.isClosing) return
      this.options.onFailed(errorText(error))
      this.attemptLater()
    })
  }
}
