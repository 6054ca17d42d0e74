/** TLS to real TLS-only servers (spec 9.2): trusted roots, client certificates, refusals. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisOptions, RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { type TlsFiles, tlsTo } from '../../../../engine/stores/tls.ts'
import { type Certificates, makeCertificates } from '../../../helpers/certificates.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { startCluster } from '../../../helpers/redis-cluster.ts'
import { startSentinel } from '../../../helpers/redis-sentinel.ts'
import { addAll, createRedisOptions } from '../store-harness.ts'

const NOW_SEC = 1_790_000_000
const NONE: TlsFiles = {
  prefix: 'REDIS_TLS',
  caCert: '',
  clientCert: '',
  clientKey: '',
  skipsHostname: false,
}

let named: Certificates // for localhost
let numbered: Certificates // for 127.0.0.1
let open: RedisServer // takes every client
let strict: RedisServer // wants a certificate of its clients
let plain: RedisServer
beforeAll(async () => {
  ;[named, numbered] = await Promise.all([
    makeCertificates('DNS:localhost'),
    makeCertificates('IP:127.0.0.1'),
  ])
  ;[open, strict, plain] = await Promise.all([
    startRedis({ tls: named }),
    startRedis({ tls: named, args: ['--tls-auth-clients', 'yes'] }),
    startRedis(),
  ])
})
afterAll(async () => {
  await Promise.all([open, strict, plain].map((server) => server.stop()))
  await Promise.all([named, numbered].map((files) => files.remove()))
})

/** The first count, or the connection error. */
async function countAt(url: string, options: Partial<RedisOptions>): Promise<string> {
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 20 }
  const store = new RedisStore(createRedisOptions(url, { startup, timeoutMs: 1_000, ...options }), {
    log: () => {},
  })
  try {
    await store.connect()
    return String(await addAll(store, [[`key_${Math.random()}`, 1]], NOW_SEC))
  } catch (error) {
    return (error as Error).message
  } finally {
    await store.close()
  }
}

const at = (host: string, server: RedisServer) => `${host}:${server.port}`

test('9.2: what is verified', async () => {
  const ca = { ...NONE, caCert: named.ca }
  const pair = { ...ca, clientCert: named.cert, clientKey: named.key }
  // biome-ignore format: the columns are the specification
  const cases = [
    // server                  files                                             -> 1, or what is wrong
    [at('localhost', open),    ca,                                                  '1'],
    [at('localhost', open),    NONE,                                                'self-signed certificate in certificate chain'],
    [at('localhost', open),    { ...NONE, caCert: numbered.ca },                    'self-signed certificate in certificate chain'],
    [at('127.0.0.1', open),    ca,                                                  'does not match certificate'],
    [at('127.0.0.1', open),    { ...ca, skipsHostname: true },                      '1'],
    [at('localhost', open),    { ...NONE, skipsHostname: true },                    'self-signed certificate in certificate chain'],
    [at('localhost', strict),  pair,                                                '1'],
    [at('localhost', strict),  ca,                                                  'timed out waiting'], // the text is TLS' own
    [at('localhost', strict),  { ...ca, clientCert: named.cert },                   'timed out waiting'], // no key: no pair
    [at('localhost', plain),   ca,                                                  'timed out waiting'],
    [`redis://${at('localhost', open)}/2`, ca,                                      '1'],
  ] as const
  for (const [url, tls, result] of cases)
    expect([url, await countAt(url, { tls })]).toEqual([url, expect.stringContaining(result)])
  expect(await countAt(at('localhost', open), {})).toContain('timed out waiting') // plain to a TLS port
})

test('9.2: sentinels and the master they name, all by TLS', async () => {
  const set = await startSentinel({ tls: numbered, password: 'data', sentinelPassword: 'watch' })
  const options = { type: 'sentinel', auth: 'data', sentinelAuth: 'watch' } as const
  expect(await countAt(set.url, { ...options, tls: { ...NONE, caCert: numbered.ca } })).toBe('1')
  expect(await countAt(set.url, { ...options, tls: NONE })).toContain('self-signed certificate')
  await set.stop()
})

test('9.2: a cluster by TLS, with a password', async () => {
  const cluster = await startCluster({ tls: numbered, password: 'data', args: ['--requirepass', 'data'] })
  const tls = { ...NONE, caCert: numbered.ca }
  expect(await countAt(cluster.url, { type: 'cluster', auth: 'data', tls })).toBe('1')
  expect(await countAt(`redis://:data@${cluster.url}`, { type: 'cluster', tls })).toBe('1')
  expect(await countAt(cluster.url, { type: 'cluster', auth: 'wrong', tls })).toContain('WRONGPASS')
  expect(await countAt(cluster.url, { type: 'cluster', tls })).toContain('NOAUTH')
  await cluster.stop()
})

test('8.1: errors name unusable files and their settings', async () => {
  const garbage = join(named.ca, '../garbage.pem')
  await writeFile(garbage, 'hello')
  const broken = join(named.ca, '../broken.pem')
  await writeFile(broken, '-----BEGIN CERTIFICATE-----\nhello\n-----END CERTIFICATE-----\n')
  // biome-ignore format: the columns are the specification
  const cases = [
    [{ ...NONE, caCert: '/no/such' },                                    'REDIS_TLS_CACERT: failed to read file: /no/such: ENOENT'],
    [{ ...NONE, caCert: garbage },                                       `REDIS_TLS_CACERT: failed to load the provided TLS CA certificate: ${garbage}: it contains no certificate`],
    [{ ...NONE, caCert: broken },                                        `REDIS_TLS_CACERT: failed to load the provided TLS CA certificate: ${broken}`],
    [{ ...NONE, clientCert: '/no/cert', clientKey: named.key },          'REDIS_TLS_CLIENT_CERT: failed to read file: /no/cert: ENOENT'],
    [{ ...NONE, clientCert: named.cert, clientKey: '/no/key' },          'REDIS_TLS_CLIENT_KEY: failed to read file: /no/key: ENOENT'],
    [{ ...NONE, clientCert: named.cert, clientKey: numbered.key },       `failed to load TLS key pair (${named.cert},${numbered.key}): `],
  ] as const
  for (const [files, message] of cases) expect(() => tlsTo(files)).toThrow(message)
})
