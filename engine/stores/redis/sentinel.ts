/**
 * Sentinels: who is the master now (spec 9.1).
 *
 *     sentinel A ──► master 10.0.0.1:6379, epoch 3 ┐
 *     sentinel B ──► master 10.0.0.2:6379, epoch 4 ┴─► more than half have answered: the newest epoch is right
 *     sentinel C ──► (no answer yet)                   10.0.0.2:6379
 *
 * Each fail-over raises the epoch, so a sentinel that has not heard of it yet, or was cut off, is outvoted. All are asked
 * before each attempt to connect, and again each POLL_MS while connected: an old master that still answers would go on
 * counting for nobody until its sentinels cut us off, some ten seconds after the fail-over.
 */
import type { Redis } from 'ioredis'
import { backoffMs, errorText } from '../connect-retry.ts'
import type { TlsTo } from '../tls.ts'
import { parseRedisAddress, parseSentinels, type RedisAddress } from './address.ts'
import { discoveryClient } from './discovery.ts'

export interface SentinelsOptions {
  url: string // REDIS_URL
  auth: string // for the master
  sentinelAuth: string // for the sentinels
  variable: string | undefined
  tls: TlsTo | null // for all of them
  timeoutMs: number // for making a connection
}

const POLL_MS = 500
const ANSWER_MS_MAX = 1_000 // a sentinel that takes longer has no say
const RECONNECT = { initialMs: 125, maxMs: 1_000 }

interface MasterReport {
  host: string
  port: number
  epoch: number
}

export class Sentinels {
  private readonly master: string // its name
  private readonly masterAuth: string
  private readonly clients: SentinelClient[]
  private pollTimer: NodeJS.Timeout | undefined

  /** Throws an OperatorError when the URL is not a list of sentinels. */
  constructor({ url, auth, sentinelAuth, variable, tls, timeoutMs }: SentinelsOptions) {
    const { master, sentinels } = parseSentinels(url, sentinelAuth, variable)
    this.master = master
    this.masterAuth = auth
    this.clients = sentinels.map((address) => new SentinelClient(address, tls, timeoutMs))
  }

  /** The master's address. Rejects when no sentinel knows it. */
  async locate(): Promise<RedisAddress> {
    const { host, port } = await this.newest()
    const url = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
    return parseRedisAddress({ url, socketType: 'tcp', auth: this.masterAuth })
  }

  /** Tells where the master is, again and again, until `close`. */
  watch(onMaster: (master: { host: string; port: number }) => void): void {
    if (this.pollTimer !== undefined) return
    let isAsking = false
    this.pollTimer = setInterval(() => {
      if (isAsking) return
      isAsking = true
      this.newest()
        .then(onMaster, () => {}) // no sentinel answers: no reason to leave a master that does
        .finally(() => {
          isAsking = false
        })
    }, POLL_MS)
  }

  close(): void {
    clearInterval(this.pollTimer)
    for (const client of this.clients) client.close()
  }

  private newest(): Promise<MasterReport> {
    const { clients } = this
    return new Promise((resolve, reject) => {
      let newest: MasterReport | null = null
      let answersCount = 0
      let leftCount = clients.length
      let why = ''
      const decide = () => {
        if (leftCount > 0 && answersCount <= clients.length / 2) return
        if (newest !== null) resolve(newest)
        else reject(new Error(`no sentinel knows the master "${this.master}": ${why}`))
      }
      for (const client of clients) {
        client
          .ask(this.master)
          .then(
            (opinion) => {
              answersCount++
              if (newest === null || opinion.epoch > newest.epoch) newest = opinion
            },
            (error) => {
              why = errorText(error)
            },
          )
          .finally(() => {
            leftCount--
            decide()
          })
      }
    })
  }
}

/** A connection to one sentinel, which ioredis keeps up; asking twice does no harm here. */
class SentinelClient {
  private readonly name: string
  private readonly connect: () => Promise<Redis>
  private redis: Promise<Redis> | null = null // from the first question on
  private failure: Error | null = null
  private isClosed = false

  constructor(address: RedisAddress, tls: TlsTo | null, timeoutMs: number) {
    this.name = `${address.host}:${address.port}`
    const waitMs = (failures: number) => backoffMs(failures, RECONNECT, Math.random)
    this.connect = () => discoveryClient(address, tls, { timeoutMs, answerMsMax: ANSWER_MS_MAX, waitMs })
  }

  private async client(): Promise<Redis> {
    const redis = await this.connect()
    redis.on('error', (error: Error) => {
      this.failure = error
    })
    redis.on('ready', () => {
      this.failure = null
    })
    return redis
  }

  async ask(master: string): Promise<MasterReport> {
    try {
      this.redis ??= this.client()
      const redis = await this.redis
      if (this.isClosed) throw new Error('closing')
      const [address, fields] = await Promise.all([
        redis.call('sentinel', 'get-master-addr-by-name', master),
        redis.call('sentinel', 'master', master).catch(() => []),
      ])
      if (!Array.isArray(address)) throw new Error('it does not know it')
      return { host: String(address[0]), port: Number(address[1]), epoch: epochIn(fields) }
    } catch (error) {
      throw new Error(`${this.name}: ${errorText(this.failure ?? error)}`)
    }
  }

  close(): void {
    this.isClosed = true
    void this.redis?.then((redis) => redis.disconnect())
  }
}

/** Of `SENTINEL MASTER`: names and values in turn. */
function epochIn(fields: unknown): number {
  if (!Array.isArray(fields)) return 0
  return Number(fields[fields.indexOf('config-epoch') + 1]) || 0
}
