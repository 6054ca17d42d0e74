/** Options of one Redis instance, made from the settings. Plain data, so they can be posted to a worker. */
import type { Settings } from '../../settings/parse.ts'
import { breakerOptions } from '../breakers.ts'
import type { BreakerOptions } from '../circuit-breaker.ts'
import type { Startup } from '../connect-retry.ts'
import type { TlsFiles } from '../tls.ts'

const CONNECT_MS_DEFAULT = 10_000 // for 0, which envoyproxy/ratelimit takes as no timeout
const TIMER_MS_MAX = 2 ** 31 - 1 // the longest timer of Node

export interface RedisOptions {
  variable?: string // the setting that `url` comes from, for errors; default REDIS_URL
  type?: 'single' | 'sentinel' | 'cluster' // default single
  url: string // REDIS_URL
  socketType: string // tcp, tcp4, tcp6 or unix; used by type single
  auth: string // REDIS_AUTH; '' = the credentials of the URL
  sentinelAuth?: string // REDIS_SENTINEL_AUTH
  tls?: TlsFiles | null // default none
  timeoutMs: number // to connect
  operationTimeoutMs: number // from handing a batch to the store to its reply
  emptyWaitMs?: number // the longest a batch waits to be sent; default operationTimeoutMs
  startup: Startup
  startWaitMs?: number | null // STORE_START_WAIT: `connect` resolves after it at the latest; default null = when connected
  busyPollMs?: number // REDIS_BUSY_POLL (reply-poller.ts); default 0
  coalesceDelayMs?: number // REDIS_REPLY_COALESCE_DELAY (reply-poller.ts); default 0
  breaker?: BreakerOptions // default NO_BREAKER
  perSecond?: RedisOptions | null // the instance for limits per second; default this one
}

export function redisOptions(settings: Settings): RedisOptions {
  const options = readOptions(settings, 'REDIS')
  return { ...options, perSecond: settings.REDIS_PERSECOND ? readOptions(settings, 'REDIS_PERSECOND') : null }
}

/** Warnings about settings that are accepted but work differently here, for the log. */
export function redisWarnings(settings: Settings): string[] {
  const warnings: string[] = []
  for (const prefix of listPrefixes(settings)) {
    if (settings[`${prefix}_POOL_ON_EMPTY_BEHAVIOR`] === 'CREATE') {
      warnings.push(
        `${prefix}_POOL_ON_EMPTY_BEHAVIOR=CREATE works as WAIT: each worker has one connection per Redis node.`,
      )
    }
  }
  return warnings
}

type Prefix = 'REDIS' | 'REDIS_PERSECOND'

function listPrefixes(settings: Settings): Prefix[] {
  return settings.REDIS_PERSECOND ? ['REDIS', 'REDIS_PERSECOND'] : ['REDIS']
}

function readOptions(settings: Settings, prefix: Prefix): RedisOptions {
  const isError = settings[`${prefix}_POOL_ON_EMPTY_BEHAVIOR`] === 'ERROR'
  return {
    variable: `${prefix}_URL`,
    type: settings[`${prefix}_TYPE`],
    url: settings[`${prefix}_URL`],
    socketType: settings[`${prefix}_SOCKET_TYPE`],
    auth: settings[`${prefix}_AUTH`],
    sentinelAuth: settings[`${prefix}_SENTINEL_AUTH`],
    tls: settings[`${prefix}_TLS`] ? tlsFiles(settings) : null,
    timeoutMs: Math.min(settings[`${prefix}_TIMEOUT`] || CONNECT_MS_DEFAULT, TIMER_MS_MAX),
    operationTimeoutMs: Math.min(settings[`${prefix}_OPERATION_TIMEOUT`], TIMER_MS_MAX),
    busyPollMs: settings.REDIS_BUSY_POLL,
    coalesceDelayMs: settings.REDIS_REPLY_COALESCE_DELAY,
    breaker: breakerOptions(settings),
    ...(isError && { emptyWaitMs: settings[`${prefix}_POOL_ON_EMPTY_WAIT_DURATION`] }),
    startWaitMs: settings.STORE_START_WAIT,
    startup: {
      initialMs: settings.REDIS_STARTUP_INITIAL_INTERVAL,
      maxMs: settings.REDIS_STARTUP_MAX_INTERVAL,
      maxElapsedMs: settings.REDIS_STARTUP_MAX_ELAPSED_TIME,
    },
  }
}

/** Both instances share the files (spec 9.2). */
function tlsFiles(settings: Settings): TlsFiles {
  return {
    prefix: 'REDIS_TLS',
    caCert: settings.REDIS_TLS_CACERT,
    clientCert: settings.REDIS_TLS_CLIENT_CERT,
    clientKey: settings.REDIS_TLS_CLIENT_KEY,
    skipsHostname: settings.REDIS_TLS_SKIP_HOSTNAME_VERIFICATION,
  }
}
