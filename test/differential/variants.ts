/** The settings of one run of both services; the first rows in every run, then random ones. */
import type { Dice } from './dice.ts'

export interface Variant {
  settings: Record<string, string>
  isMerging: boolean
  hasLocalCache: boolean
  hasGiants: boolean // hits of 2^53 and more; statistics are doubles here, so they are not compared then
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

export function variant(index: number, dice: Dice): Variant {
  const settings = index < FIRST.length ? FIRST[index] : randomSettings(dice)
  return {
    settings: { EXPIRATION_JITTER_MAX_SECONDS: dice.pick(['0', '300']), ...settings },
    isMerging: settings.MERGE_DOMAIN_CONFIG === 'true',
    hasLocalCache: settings.LOCAL_CACHE_SIZE_IN_BYTES !== undefined,
    hasGiants: index >= FIRST.length && dice.chance(0.25),
  }
}

function randomSettings(dice: Dice): Record<string, string> {
  const settings: Record<string, string> = {
    NEAR_LIMIT_RATIO: dice.pick(['0.8', '0.8', '0', '1', '0.333', '0.7']),
  }
  if (dice.chance(0.5)) settings.LIMIT_RESPONSE_HEADERS_ENABLED = 'true'
  if (dice.chance(0.2))
    Object.assign(settings, { LIMIT_LIMIT_HEADER: 'x-limit', LIMIT_RESET_HEADER: 'X-Reset' })
  if (dice.chance(0.2)) settings.SHADOW_MODE = 'true'
  if (dice.chance(0.4)) settings.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT = 'true'
  if (dice.chance(0.4)) settings.REDIS_PERSECOND = 'true'
  if (dice.chance(0.4)) settings.MERGE_DOMAIN_CONFIG = 'true'
  if (dice.chance(0.3)) settings.CACHE_KEY_PREFIX = dice.pick(['p:', 'é_', 'a b '])
  if (dice.chance(0.35)) settings.LOCAL_CACHE_SIZE_IN_BYTES = '10000000'
  else if (dice.chance(0.4)) settings.WORKERS = '2' // each worker has a local cache of its own
  return settings
}
