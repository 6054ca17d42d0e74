/** The settings of each start of both services: first those of FIRST, then random ones. */
import type { Random } from './random.ts'

export interface Variant {
  settings: Record<string, string>
  isMerging: boolean
  hasLocalCache: boolean
  hasGiants: boolean // hits of 2^53 and more; Sluice adds at most 2^32 of them to statistics, so they are not compared then
}

const FIRST: Record<string, string>[] = [
  { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', NEAR_LIMIT_RATIO: '0.5' },
  { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true', REDIS_PERSECOND: 'true', MERGE_DOMAIN_CONFIG: 'true' },
  { LOCAL_CACHE_SIZE_IN_BYTES: '10000000', LIMIT_RESPONSE_HEADERS_ENABLED: 'true', CACHE_KEY_PREFIX: 'p:' },
  {
    LOCAL_CACHE_SIZE_IN_BYTES: '10000000',
    STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true',
    SHADOW_MODE: 'true',
  },
]

export function variant(index: number, random: Random): Variant {
  const settings = index < FIRST.length ? FIRST[index] : randomSettings(random)
  return {
    settings: { EXPIRATION_JITTER_MAX_SECONDS: random.pick(['0', '300']), ...settings },
    isMerging: settings.MERGE_DOMAIN_CONFIG === 'true',
    hasLocalCache: settings.LOCAL_CACHE_SIZE_IN_BYTES !== undefined,
    hasGiants: index >= FIRST.length && random.chance(0.25),
  }
}

function randomSettings(random: Random): Record<string, string> {
  const settings: Record<string, string> = {
    NEAR_LIMIT_RATIO: random.pick(['0.8', '0.8', '0', '1', '0.333', '0.7']),
  }
  if (random.chance(0.5)) settings.LIMIT_RESPONSE_HEADERS_ENABLED = 'true'
  if (random.chance(0.2))
    Object.assign(settings, { LIMIT_LIMIT_HEADER: 'x-limit', LIMIT_RESET_HEADER: 'X-Reset' })
  if (random.chance(0.2)) settings.SHADOW_MODE = 'true'
  if (random.chance(0.4)) settings.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT = 'true'
  if (random.chance(0.4)) settings.REDIS_PERSECOND = 'true'
  if (random.chance(0.4)) settings.MERGE_DOMAIN_CONFIG = 'true'
  if (random.chance(0.3)) settings.CACHE_KEY_PREFIX = random.pick(['p:', 'é_', 'a b '])
  if (random.chance(0.35)) settings.LOCAL_CACHE_SIZE_IN_BYTES = '10000000'
  else if (random.chance(0.4)) settings.WORKERS = '2' // each worker has a local cache of its own
  return settings
}
