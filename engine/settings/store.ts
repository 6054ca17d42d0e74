/**
 * Which store the settings ask for, and what an operator should hear about it at the start.
 *
 *     BACKEND_TYPE set             that store
 *     any REDIS_* or MEMCACHE_*    Redis, at the default of REDIS_URL where that is not set (as envoyproxy/ratelimit)
 *     neither                      memory, with a warning: each process counts alone
 *
 * Only names in the table of settings count, under either name. Kubernetes injects others for a Service called redis
 * (REDIS_PORT, REDIS_SERVICE_HOST, REDIS_PORT_6379_TCP); they choose nothing.
 */
import type { SettingName, Settings } from './table.ts'

/** Names of the settings that were set, and how the operator wrote each of them. */
export type WrittenNames = ReadonlyMap<SettingName, string>

const OF_A_STORE = /^(REDIS|MEMCACHE)_/

/** The store that follows from which settings are set, where BACKEND_TYPE is not; null = its value decides. */
export function impliedStore(written: WrittenNames): 'redis' | 'memory' | null {
  if (written.has('BACKEND_TYPE')) return null
  return settingOfStore(written) === undefined ? 'memory' : 'redis'
}

/** At most one line, for the log of a process that counts. */
export function storeWarnings({
  settings,
  written,
}: {
  settings: Settings
  written: WrittenNames
}): string[] {
  const implied = impliedStore(written)
  if (implied === 'memory') {
    return [
      'Counters are kept in the memory of this process: other instances do not see them, and they are lost when it ends. ' +
        'Set REDIS_URL to share them, or BACKEND_TYPE=memory to confirm.',
    ]
  }
  if (implied === 'redis' && !written.has('REDIS_URL')) {
    const name = written.get(settingOfStore(written)!)
    return [
      `${name} is set and REDIS_URL is not: counters are kept in Redis at the default address, ${settings.REDIS_URL}. ` +
        'Set REDIS_URL, or BACKEND_TYPE to memory or memcache.',
    ]
  }
  return []
}

function settingOfStore(written: WrittenNames): SettingName | undefined {
  for (const name of written.keys()) if (OF_A_STORE.test(name)) return name
  return undefined
}
