/**
 * One connection to one Redis, kept up for ever.
 *
 *     locate ── TCP, TLS ── AUTH, SELECT ── PING: PONG ── script loaded ──► connected ──► lost ── back-off ──┐
 *       ▲                                                                                                    │
 *       └────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * ioredis does the wire, with a new client for every attempt, so nothing of an old connection can be sent again, and
 * whatever names the server (a setting, a sentinel) is asked anew. (With its own reconnecting and its defaults one lost
 * reply counted twice; tried.) What had no reply when the connection went is reported as lost, once, by `onLost`.
 */
import { Command, Redis } from 'ioredis'
import type { RedisAddress } from './redis-address.ts'
import { backoffMs, errorText } from './retry.ts'
import type { TlsTo } from './tls.ts'

export type Reply = (error: Error | null | undefined, value?: unknown) => void

export interface ConnectionOptions {
  locate: () => Promise<RedisAddress> // where the server is now; asked before each attempt
  tls: TlsTo | null // null = plain
  isMasterOnly: boolean // a server that says it is a replica is no use
  timeoutMs: number // for one attempt, from the first packet to the loaded script
  script: string // Lua, loaded on every connect; '' = none
  onConnected: () => void
  onLost: (reason: string) => void // before the next attempt; commands without a reply were maybe run
}

const RECONNECT = { initialMs: 125, maxMs: 4_000 } // as the reference (spec 9.3)
const STEADY_MS = RECONNECT.maxMs // a connection that lasted so long was a good one: waits start small again
const KEEPALIVE_MS = 10_000
const TEXT = { replyEncoding: 'utf8' } as const
const GOODBYE_MS = 100 // to a peer that does not close its side

export class RedisConnection {
  isConnected = false
  address: RedisAddress | null = null // of the running or last attempt
  private readonly options: ConnectionOptions
  private redis: Redis | null = null
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
    const redis = new Redis(clientOptions(address, this.options.tls, this.options.timeoutMs))
    let failure: Error | null = null // the first is the cause, later ones only its consequences
    const fail = (error: Error) => {
      failure ??= error
    }
    this.address = address
    this.redis = redis
    redis.on('error', fail)
    redis.on('close', () => this.lost(redis, failure ? errorText(failure) : 'closed by the other side'))
    const timer = setTimeout(() => {
      fail(new Error('no answer'))
      redis.disconnect()
    }, this.options.timeoutMs)
    try {
      await redis.connect()
      await this.greet(redis)
    } catch (error) {
      redis.disconnect()
      await ended(redis)
      throw failure ?? error
    } finally {
      clearTimeout(timer)
    }
    if (redis.status !== 'ready') throw failure ?? new Error('closed by the other side')
    this.connected()
  }

  /** Tries for ever from now on, without an attempt that anybody waits for. */
  keep(): void {
    if (this.isKept) return
    this.isKept = true
    this.attempt()
  }

  /** Does not wait any longer before the next attempt. */
  hurry(): void {
    if (this.timer === undefined) return
    clearTimeout(this.timer)
    this.attempt()
  }

  /** Sends one command. `reply` is called once, now or later, unless the connection is lost first. */
  call(name: string, args: (string | number)[], reply: Reply): void {
    this.redis?.sendCommand(new Command(name, args, TEXT, reply))
  }

  /** One command and its reply. For what does not count: the caller cannot tell a lost reply from a late one. */
  ask(name: string, args: string[], msMax: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no reply to ${name} within ${msMax}ms`)), msMax)
      this.call(name, args, (error, value) => {
        clearTimeout(timer)
        if (error) reject(error)
        else resolve(value)
      })
    })
  }

  /** Gives the connection up and makes a new one. */
  drop(reason: string): void {
    const { redis } = this
    if (redis === null) return
    this.lost(redis, reason)
    redis.disconnect()
  }

  async close(): Promise<void> {
    this.isClosing = true
    this.isConnected = false
    clearTimeout(this.timer)
    this.timer = undefined
    const { redis } = this
    if (redis === null) return
    redis.disconnect()
    await ended(redis)
  }

  private async greet(redis: Redis): Promise<void> {
    const { script, isMasterOnly } = this.options
    const [pong, role] = await Promise.all([
      redis.ping(),
      isMasterOnly ? redis.role().catch(allowed) : null,
      script === '' ? null : redis.script('LOAD', script),
    ])
    if (pong !== 'PONG') throw new Error(`PING was answered ${JSON.stringify(pong)}`)
    if (role !== null && role[0] !== 'master') throw new Error(`it is a ${role[0]}, not a master`)
  }

  private connected(): void {
    this.connectedMs = performance.now()
    this.isKept = true
    this.isConnected = true
    this.options.onConnected()
  }

  private lost(redis: Redis, reason: string): void {
    if (this.redis !== redis || !this.isConnected) return // an attempt that failed, or told already
    this.isConnected = false
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
    this.open().catch(() => this.attemptLater())
  }
}

function clientOptions(address: RedisAddress, tls: TlsTo | null, timeoutMs: number) {
  const { path, host, port, family, username, password, db } = address
  return {
    ...(path === '' ? { host, port, family } : { path }),
    username: username === '' ? undefined : username,
    password: password === '' ? undefined : password,
    db,
    ...(tls !== null && { tls: tls(path === '' ? host : '') }),
    protocol: 2, // no HELLO: as the reference
    disableClientInfo: true,
    enableReadyCheck: false, // its INFO is large; PING tells the same
    lazyConnect: true,
    keepAlive: KEEPALIVE_MS,
    connectTimeout: timeoutMs,
    disconnectTimeout: GOODBYE_MS,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  } as const
}

/** Who may not ask for the role is told by the first hit (READONLY). */
function allowed(error: Error): null {
  if (error.message.startsWith('NOPERM')) return null
  throw error
}

/** Resolves when ioredis has let go of its socket. */
async function ended(redis: Redis): Promise<void> {
  if (redis.status === 'wait' || redis.status === 'end') return
  await new Promise<void>((resolve) => redis.once('end', () => resolve()))
}
