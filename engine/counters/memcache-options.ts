/**
 * The MEMCACHE_* settings as the store takes them; main checks them before any port opens.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, getCACertificates } from 'node:tls'
import { OperatorError } from '../errors.ts'
import type { Settings } from '../settings/parse.ts'
import type { MemcacheTls } from './memcache-node.ts'
import { findServers, type ServersOptions } from './memcache-servers.ts'

export interface MemcacheOptions extends ServersOptions {
  srvRefreshMs: number // MEMCACHE_SRV_REFRESH; 0 = never
  tls: MemcacheTls | null
  isErrorZero: boolean // MEMCACHE_ERRORS_AS_ZERO
  timeoutMs: number // for each command
}

const TIMEOUT_MS = 500 // as the reference, which has no setting for it either

/** Throws an OperatorError when a file of MEMCACHE_TLS_* is of no use. */
export function memcacheOptions(settings: Settings): MemcacheOptions {
  return {
    hostPort: settings.MEMCACHE_HOST_PORT,
    srv: settings.MEMCACHE_SRV,
    srvRefreshMs: settings.MEMCACHE_SRV_REFRESH,
    tls: settings.MEMCACHE_TLS ? readTls(settings) : null,
    isErrorZero: settings.MEMCACHE_ERRORS_AS_ZERO,
    timeoutMs: TIMEOUT_MS,
  }
}

/** Throws an OperatorError when the service cannot start with these settings. Connects to no node: none is needed. */
export async function checkMemcache(settings: Settings): Promise<void> {
  await findServers(memcacheOptions(settings))
}

/** As for Redis (spec 9.2): the system's CAs and ours; a client certificate only when it has a key. */
function readTls(settings: Settings): MemcacheTls {
  const ca = read(settings, 'MEMCACHE_TLS_CACERT')
  const cert = read(settings, 'MEMCACHE_TLS_CLIENT_CERT')
  const key = read(settings, 'MEMCACHE_TLS_CLIENT_KEY')
  const roots = new Set([...getCACertificates('default'), ...getCACertificates('system')])
  try {
    if (ca !== '') {
      new X509Certificate(ca) // throws where it is none
      roots.add(ca)
    }
    return {
      context: createSecureContext({ ca: [...roots], ...(cert !== '' && key !== '' && { cert, key }) }),
      isNameChecked: !settings.MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION,
    }
  } catch (cause) {
    throw noTls('MEMCACHE_TLS_CACERT, MEMCACHE_TLS_CLIENT_CERT, MEMCACHE_TLS_CLIENT_KEY', cause)
  }
}

type FileName = 'MEMCACHE_TLS_CACERT' | 'MEMCACHE_TLS_CLIENT_CERT' | 'MEMCACHE_TLS_CLIENT_KEY'

function read(settings: Settings, name: FileName): string {
  if (settings[name] === '') return ''
  try {
    return readFileSync(settings[name], 'utf8')
  } catch (cause) {
    throw noTls(name, cause)
  }
}

function noTls(where: string, cause: unknown): OperatorError {
  const what = `${(cause as Error).message}.`
  const fix = 'Give readable PEM files, a certificate with its own key.'
  return new OperatorError({ code: 'MEMCACHE_TLS_INVALID', where, what, fix, exitCode: 2 }, { cause })
}
