/**
 * Finds the current master through sentinels (spec 9.1).
 *
 *     sentinel A ──► master 10.0.0.1:6379, epoch 3 ┐
 *     sentinel B ──► master 10.0.0.2:6379, epoch 4 ┴─► more than half have replied: the newest epoch wins
 *     sentinel C ──► (no reply yet)                    10.0.0.2:6379
 *
 * Each fail-over raises the epoch, so a sentinel that missed it is outvoted. Of one epoch, the master named by most wins; while equally
 * many name two of them, the other sentinels are waited for. Sentinels are trusted: one with the newest epoch is followed alone. A reply
 * without a usable address and epoch is ignored. All are queried before each attempt to connect, and
 * every POLL_MS while connected: an old master that still replies would otherwise continue to count until its sentinels cut the
 * connection, some ten seconds after the fail-over.
 */
import { isIPv6 } from 'node:net'
import type { Redis } from 'ioredis'
import { backoffMs } from '../../runtime/backoff.ts'
import type { Log } from '../../runtime/messages.ts'
import { logOncePerMinute } from '../../runtime/rate-limited-log.ts'
import { errorText } from '../connect-retry.ts'
import type { TlsTo } from '../tls.ts'
import { PORT_MAX, parseRedisAddress, parseSentinels, type RedisAddress } from './address.ts'
import { discoveryClient } from './discovery.ts'
import { cutText } from './resp.ts'

export interface SentinelsOptions {
  url: string // REDIS_URL
  auth: string // for the master
  sentinelAuth: string // for the sentinels
  variable: string | undefined
  tls: TlsTo | null // for all of them
  timeoutMs: number // to connect
  log: Log
}

const POLL_MS = 500
const REPLY_MS_MAX = 1_000 // slower sentinels are ignored
const HOST = /^[\w.:%-]{1,253}$/ // a name or an address, IPv6 with its zone
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

  /** Throws a ConfigurationError when the URL is not a list of sentinels. */
  constructor({ url, auth, sentinelAuth, variable, tls, timeoutMs, log }: SentinelsOptions) {
    const { master, sentinels } = parseSentinels(url, sentinelAuth, variable)
    this.master = master
    this.masterAuth = auth
    this.clients = sentinels.map((address) => new SentinelClient(address, tls, timeoutMs, log))
  }

  /** The master's address. Rejects when no sentinel knows it. */
  async locate(): Promise<RedisAddress> {
    const { host, port } = await this.fetchNewest()
    const url = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
    return parseRedisAddress({ url, socketType: 'tcp', auth: this.masterAuth })
  }

  /** Calls `onMaster` every POLL_MS until `close`. */
  watch(onMaster: (master: { host: string; port: number }) => void): void {
    if (this.pollTimer !== undefined) return
    let isPolling = false
    this.pollTimer = setInterval(() => {
      if (isPolling) return
      isPolling = true
      this.fetchNewest()
        .then(onMaster, () => {}) // no sentinel replies: the current master stays
        .finally(() => {
          isPolling = false
        })
    }, POLL_MS)
  }

  close(): void {
    clearInterval(this.pollTimer)
    for (const client of this.clients) client.close()
  }

  private fetchNewest(): Promise<MasterReport> {
    const { clients } = this
    return new Promise((resolve, reject) => {
      const reports: MasterReport[] = []
      let pendingCount = clients.length
      let reason = ''
      const decide = () => {
        const { best, isTied } = chooseReport(reports)
        if (pendingCount > 0 && (reports.length <= clients.length / 2 || isTied)) return
        if (best !== null) resolve(best)
        else reject(new Error(`no sentinel knows the master "${this.master}": ${reason}`))
      }
      for (const client of clients) {
        client
          .fetchMaster(this.master)
          .then(
            (report) => {
              reports.push(report)
            },
            (error) => {
              reason = errorText(error)
            },
          )
          .finally(() => {
            pendingCount--
            decide()
          })
      }
    })
  }
}

/** The master that most sentinels of the newest epoch name. `isTied`: another one has as many; then the choice is arbitrary but lasting. */
function chooseReport(reports: readonly MasterReport[]): { best: MasterReport | null; isTied: boolean } {
  const epoch = Math.max(...reports.map((report) => report.epoch))
  const byAddress = new Map<string, MasterReport[]>()
  for (const report of reports) {
    const address = `${report.host} ${report.port}`
    if (report.epoch === epoch) byAddress.set(address, [...(byAddress.get(address) ?? []), report])
  }
  const [first, second] = [...byAddress].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1))
  return { best: first?.[1][0] ?? null, isTied: second !== undefined && first[1].length === second[1].length }
}

/** A connection to one sentinel, kept by ioredis; its retries are harmless here. */
class SentinelClient {
  private readonly name: string
  private readonly connect: () => Promise<Redis>
  private redis: Promise<Redis> | null = null // from the first request on
  private readonly logMalformed: (line: string) => void
  private failure: Error | null = null
  private isClosed = false

  constructor(address: RedisAddress, tls: TlsTo | null, timeoutMs: number, log: Log) {
    this.logMalformed = logOncePerMinute((line) => log('warning', line))
    this.name = `${address.host}:${address.port}`
    const waitMs = (failures: number) => backoffMs(failures, RECONNECT, Math.random)
    this.connect = () => discoveryClient(address, tls, { timeoutMs, replyMsMax: REPLY_MS_MAX, waitMs })
  }

  private async createClient(): Promise<Redis> {
    const redis = await this.connect()
    redis.on('error', (error: Error) => {
      this.failure = error
    })
    redis.on('ready', () => {
      this.failure = null
    })
    return redis
  }

  async fetchMaster(master: string): Promise<MasterReport> {
    try {
      this.redis ??= this.createClient()
      const redis = await this.redis
      if (this.isClosed) throw new Error('closing')
      const [address, fields] = await Promise.all([
        redis.call('sentinel', 'get-master-addr-by-name', master),
        redis.call('sentinel', 'master', master).catch(() => []),
      ])
      if (!Array.isArray(address)) throw new Error('it does not know this master')
      const report = readMasterReport(address, fields)
      if (report !== null) return report
      const reply = cutText(JSON.stringify(address))
      const reason = `its reply names no usable address and epoch of the master: ${reply}, epoch ${getEpochText(fields)}`
      this.logMalformed(`Redis Sentinel at ${this.name}: ${reason}; the reply is ignored`)
      throw new Error(reason)
    } catch (error) {
      throw new Error(`${this.name}: ${cutText(errorText(this.failure ?? error))}`)
    }
  }

  close(): void {
    this.isClosed = true
    void this.redis?.then((redis) => redis.disconnect())
  }
}

/** Null if the host cannot be one, the port is not from 1 to 65535, or the epoch is not a number of up to 15 digits. */
function readMasterReport([host, portText]: unknown[], fields: unknown): MasterReport | null {
  const [port, epochText] = [Number(portText), getEpochText(fields)]
  if (typeof host !== 'string' || !HOST.test(host) || (host.includes(':') && !isIPv6(host))) return null
  if (typeof portText !== 'string' || !/^[1-9]\d{0,4}$/.test(portText) || port > PORT_MAX) return null
  return /^\d{1,15}$/.test(epochText) ? { host, port, epoch: Number(epochText) } : null
}

/** `fields` is the reply to SENTINEL MASTER: alternating names and values. '0' if the sentinel did not say. */
function getEpochText(fields: unknown): string {
  const index = Array.isArray(fields) ? fields.indexOf('config-epoch') : -1
  return index < 0 ? '0' : cutText(String((fields as unknown[])[index + 1]))
}
