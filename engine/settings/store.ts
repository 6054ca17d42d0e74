/**
 * Which store the settings choose, and the start-up warning about it.
 *
 *     BACKEND_TYPE given           that store
 *     any REDIS_* or MEMCACHE_*    Redis, by default at the default of REDIS_URL (as in envoyproxy/ratelimit)
 *     neither                      memory, with a warning: counters are not shared with other processes
 *
 * A variable with an empty text gives nothing. Only settings count, under either name: the variables that Kubernetes
 * injects for a Service named redis (REDIS_PORT, REDIS_SERVICE_HOST, REDIS_PORT_6379_TCP) choose no store.
 */
import type { Settings } from './table.ts'

/** The settings that were given, each with the variable's name as the operator wrote it. */
export type WrittenNames = ReadonlyMap<string, string>

const STORE_SETTING = /^(REDIS|MEMCACHE)_/

/** The store implied by the settings given; null = BACKEND_TYPE is given and decides. */
export function impliedStore(written: WrittenNames): 'redis' | 'memory' | null {
  if (written.has('BACKEND_TYPE')) return null
  return findStoreSetting(written) === undefined ? 'memory' : 'redis'
}

/** For the log of a process that counts hits, from main only. */
export function storeWarnings({
  settings,
  written,
}: {
  settings: Settings
  written: WrittenNames
}): string[] {
  if (settings.BACKEND_TYPE === 'memcache') return memcacheWarnings(settings)
  const implied = impliedStore(written)
  if (implied === 'memory') {
    return [
      'Counters are kept in the memory of this process: other instances do not see them, and they are lost when it ends. ' +
        'Set REDIS_URL to share them, or BACKEND_TYPE=memory to confirm.',
    ]
  }
  if (implied === 'redis' && !written.has('REDIS_URL')) {
    const name = written.get(findStoreSetting(written)!)
    return [
      `${name} is set and REDIS_URL is not: counters are kept in Redis at the default address, ${settings.REDIS_URL}. ` +
        'Set REDIS_URL, or BACKEND_TYPE to memory or memcache.',
    ]
  }
  return []
}

/** Without servers the service starts and each hit fails (spec 9.6). */
function memcacheWarnings(settings: Settings): string[] {
  const { MEMCACHE_HOST_PORT, MEMCACHE_SRV, MEMCACHE_ERRORS_AS_ZERO, STORE_ERROR_POLICY } = settings
  const warnings: string[] = []
  if (MEMCACHE_ERRORS_AS_ZERO && STORE_ERROR_POLICY !== 'error') {
    warnings.push(
      `MEMCACHE_ERRORS_AS_ZERO=true leaves nothing for STORE_ERROR_POLICY=${STORE_ERROR_POLICY} to decide: counts that cannot be read are 0. ` +
        'Set only one of them.',
    )
  }
  if (MEMCACHE_HOST_PORT.length > 0 || MEMCACHE_SRV !== '') return warnings
  return [
    ...warnings,
    'BACKEND_TYPE=memcache, but neither MEMCACHE_HOST_PORT nor MEMCACHE_SRV is set: no hit can be counted. ' +
      'Set MEMCACHE_HOST_PORT to the host:port of every node, or MEMCACHE_SRV to the DNS SRV record that lists them. ' +
      '[MEMCACHE_SERVERS_MISSING]',
  ]
}

function findStoreSetting(written: WrittenNames): string | undefined {
  for (const name of written.keys()) if (STORE_SETTING.test(name)) return name
  return undefined
}
