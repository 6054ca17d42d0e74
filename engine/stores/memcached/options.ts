/**
 * The MEMCACHE_* settings as options of the store. Main checks them before any port opens.
 */
import type { Settings } from '../../settings/parse.ts'
import { breakerOptions } from '../breakers.ts'
import type { BreakerOptions } from '../circuit-breaker.ts'
import { type TlsFiles, type TlsTo, tlsTo } from '../tls.ts'
import { findServers, type ServersOptions } from './server-list.ts'

export interface MemcacheOptions extends ServersOptions {
  srvRefreshMs: number // MEMCACHE_SRV_REFRESH; 0 = never
  tls: TlsTo | null
  isErrorZero: boolean // MEMCACHE_ERRORS_AS_ZERO
  timeoutMs: number // for each command
  breaker?: BreakerOptions // default NO_BREAKER
}

const TIMEOUT_MS = 500 // as envoyproxy/ratelimit, which has no setting for it either

/** Throws a ConfigurationError for an unusable MEMCACHE_TLS_* file. */
export function memcacheOptions(settings: Settings): MemcacheOptions {
  return {
    hostPort: settings.MEMCACHE_HOST_PORT,
    srv: settings.MEMCACHE_SRV,
    srvRefreshMs: settings.MEMCACHE_SRV_REFRESH,
    tls: settings.MEMCACHE_TLS ? tlsTo(tlsFiles(settings)) : null,
    isErrorZero: settings.MEMCACHE_ERRORS_AS_ZERO,
    timeoutMs: TIMEOUT_MS,
    breaker: breakerOptions(settings),
  }
}

/** Throws a ConfigurationError if the service cannot start with these settings. Nodes need not be reachable. */
export async function checkMemcache(settings: Settings): Promise<void> {
  await findServers(memcacheOptions(settings))
}

function tlsFiles(settings: Settings): TlsFiles {
  return {
    prefix: 'MEMCACHE_TLS',
    caCert: settings.MEMCACHE_TLS_CACERT,
    clientCert: settings.MEMCACHE_TLS_CLIENT_CERT,
    clientKey: settings.MEMCACHE_TLS_CLIENT_KEY,
    skipsHostname: settings.MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION,
  }
}
