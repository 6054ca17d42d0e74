import { expect, test } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { inWrittenNames } from '../../../engine/settings/written-names.ts'

const renamed = (env: Record<string, string>, text: string) =>
  inWrittenNames(parseSettings(env).written)?.(text) ?? text

// biome-ignore format: the columns are the specification
const cases = [
  [{ KVSTORE_URL: 'a' },                       'REDIS_URL "a": it is not host:port', 'KVSTORE_URL "a": it is not host:port'],
  [{ KVSTORE_URL: 'a' },                       'XREDIS_URL, REDIS_URLS, REDIS_URL_X', 'XREDIS_URL, REDIS_URLS, REDIS_URL_X'],
  [{ KVSTORE_URL: 'a', KVSTORE_TLS: 'true' },  'REDIS_TLS=true, REDIS_TLS_CACERT',    'KVSTORE_TLS=true, REDIS_TLS_CACERT'],
  [{ REDIS_URL: 'a', KVSTORE_URL: 'b' },       'REDIS_URL "a"',                       'REDIS_URL "a"'],
  [{ USE_PULLMETRICS: 'true' },                'USE_STATSD and USE_PROMETHEUS',       'USE_STATSD and USE_PULLMETRICS'],
  [{ LocalCacheSizeInBytes: '7' },             'LOCAL_CACHE_SIZE_IN_BYTES=7',         'LocalCacheSizeInBytes=7'],
] as const
for (const [env, text, expected] of cases)
  test(`${JSON.stringify(env)}: ${text}`, () => expect(renamed(env, text)).toBe(expected))

test('no change where every name is the current one', () => {
  expect(inWrittenNames(parseSettings({ REDIS_URL: 'a', PORT: '1' }).written)).toBe(null)
})
