/** What the store is told about one Redis, in words that can be posted to a worker; from the settings or from a test. */
import type { Settings } from '../../settings/parse.ts'
import type { Startup } from '../connect-retry.ts'
import type { TlsFiles } from '../tls.ts'

const CONNECT_MS_DEFAULT = 10_000 // 0 would be no end in the reference; every wait has one
const TIMER_MS_MAX = 2 ** 31 - 1 // Node's timers end there

export interface RedisOptions {
  variable?: string // whose value `url` is, for people; REDIS_URL unless said
  type?: 'single' | 'sentinel' | 'cluster' // single unless said
  url: string // REDIS_URL
  socketType: string // tcp, tcp4, tcp6 or unix; of a single one
  auth: string // REDIS_AUTH; '' = what the URL says
  sentinelAuth?: string // REDIS_SENTINEL_AUTH
  tls?: TlsFiles | null // none unless said
  timeoutMs: number // for making a connection
  operationTimeoutMs: number // from the moment a batch is given to the store to its reply
  emptyWaitMs?: number // at most so long a batch waits for its turn; operationTimeoutMs unless said
  startup: Startup
  spinMs?: number // so long a reply is looked for before sleeping (reply-poller.ts); 0 unless said
  napMs?: number // so long a thread sleeps whatever comes (reply-poller.ts); 0 unless said
  perSecond?: RedisOptions | null // where limits per second are counted; here unless said
}

export function redisOptions(settings: Settings): RedisOptions {
  const options = readOptions(settings, 'REDIS')
  return { ...options, perSecond: settings.REDIS_PERSECOND ? readOptions(settings, 'REDIS_PERSECOND') : null }
}

/** Settings that are accepted and do not mean what they say, for the log. */
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
    spinMs: settings.REDIS_BUSY_POLL,
    napMs: settings.REDIS_REPLY_COALESCE_DELAY,
    ...(isError && { emptyWaitMs: settings[`${prefix}_POOL_ON_EMPTY_WAIT_DURATION`] }),
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
