/**
 * One connection to one Redis, kept up for ever.
 *
 *     open ── TCP ── AUTH, SELECT ── PING: PONG ── script loaded ──► connected ──► lost ── back-off ──┐
 *                        ▲                                                                            │
 *                        └────────────────────────────────────────────────────────────────────────────┘
 *
 * ioredis does the wire. It is set up so that it never sends anything twice and queues nothing: what cannot be written
 * now fails now, and what had no reply when the connection went is reported as lost, once, by `onLost`.
 * (With its defaults one lost reply counted twice; tried.)
 */
import { Command, Redis } from 'ioredis'
import type { RedisAddress } from './redis-address.ts'
import { backoffMs, errorText } from './retry.ts'

export type Reply = (error: Error | null | undefined, value?: unknown) => void

export interface ConnectionOptions {
  address: RedisAddress
  timeoutMs: number // for one attempt, from the first packet to the loaded script
  script: string // Lua, loaded on every connect
  onConnected: () => void
  onLost: (reason: string) => void // before the next attempt; commands without a reply were maybe run
}

const RECONNECT = { initialMs: 125, maxMs: 4_000 } // as the reference (spec 9.3)
const KEEPALIVE_MS = 10_000
const GOODBYE_MS = 100 // to a peer that does not close its side

/** Errors that say "not this server, or not yet": trying the same connection again would give the same answer. */
const WRONG_SERVER = /^-?(READONLY|LOADING|MASTERDOWN)\b/

export class RedisConnection {
  isConnected = false
  private readonly options: ConnectionOptions
  private readonly redis: Redis
  private greeting: Promise<void> = Promise.resolve()
  private attemptTimer: NodeJS.Timeout | undefined
  private failure: Error | null = null // why the running attempt fails, or why the connection was lost
  private isKept = false // from the first success on

  constructor(options: ConnectionOptions) {
    this.options = options
    const { path, host, port, family, username, password, db } = options.address
    this.redis = new Redis({
      ...(path === '' ? { host, port, family } : { path }),
      ...(username !== '' && { username }),
      ...(password !== '' && { password }),
      db,
      protocol: 2, // no HELLO, as the reference
      disableClientInfo: true,
      enableReadyCheck: false, // its INFO is large; PING tells the same
      lazyConnect: true,
      keepAlive: KEEPALIVE_MS,
      connectTimeout: options.timeoutMs,
      disconnectTimeout: GOODBYE_MS,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (failures) => (this.isKept ? backoffMs(failures, RECONNECT, Math.random) : null),
      reconnectOnError: (error) => WRONG_SERVER.test(error.message), // true never sends again; 2 would
    })
    this.redis.on('error', (error: Error) => {
      this.failure ??= error // the first is the cause, later ones only its consequences
    })
    this.redis.on('connect', () => {
      this.attemptTimer = setTimeout(() => this.drop('no answer'), options.timeoutMs)
    })
    this.redis.on('ready', () => {
      this.greeting = this.greet()
      this.greeting.catch((error: Error) => this.drop(errorText(error)))
    })
    this.redis.on('close', () => this.closed())
  }

  /** One attempt. Rejects with its reason; after the first success the connection comes back by itself. */
  async open(): Promise<void> {
    this.failure = null
    try {
      await this.redis.connect()
      await this.greeting
    } catch (error) {
      await this.ended()
      throw this.failure ?? error
    }
  }

  /** Sends one command. `reply` is called once, now or later, unless the connection is lost first. */
  call(name: string, args: (string | number)[], reply: Reply): void {
    this.redis.sendCommand(new Command(name, args, undefined, reply))
  }

  /** Gives the connection up and makes a new one, where `error` says that this one is no use. */
  dropIfWrongServer(error: string): void {
    if (WRONG_SERVER.test(error) && this.isConnected) this.drop(error)
  }

  /** Gives the connection up and makes a new one. */
  drop(reason: string): void {
    this.failure ??= new Error(reason)
    this.lost()
    this.redis.disconnect(true)
  }

  async close(): Promise<void> {
    this.isKept = false
    this.isConnected = false
    this.redis.disconnect()
    await this.ended()
  }

  private async greet(): Promise<void> {
    const [pong] = await Promise.all([this.redis.ping(), this.redis.script('LOAD', this.options.script)])
    if (pong !== 'PONG') throw new Error(`PING was answered ${JSON.stringify(pong)}`)
    clearTimeout(this.attemptTimer)
    this.failure = null
    this.isKept = true
    this.isConnected = true
    this.options.onConnected()
  }

  private closed(): void {
    clearTimeout(this.attemptTimer)
    this.lost()
  }

  private lost(): void {
    if (!this.isConnected) return
    this.isConnected = false
    this.options.onLost(this.failure ? errorText(this.failure) : 'closed by the other side')
  }

  /** Resolves when ioredis has let go of its socket and will not try again by itself. */
  private async ended(): Promise<void> {
    if (this.redis.status === 'wait' || this.redis.status === 'end') return
    await new Promise<void>((resolve) => this.redis.once('end', () => resolve()))
  }
}
