/** TLS to real TLS-only servers (spec 9.2): trusted roots, client certificates, refusals. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { RedisOptions } from '../../../../engine/stores/redis/redis-store.ts'
import { type TlsFiles, tlsTo } from '../../../../engine/stores/tls.ts'
import { type Certificates, makeCertificates } from '../../../helpers/certificates.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { freePort } from '../../../helpers/ports.ts'
import { type RedisServer, type RedisServerOptions, startRedis } from '../../../helpers/redis.ts'
import { addAll, createRedisOptions, createRedisStore, NOW_SEC } from '../store-harness.ts'

const NONE: TlsFiles = {
  prefix: 'REDIS_TLS',
  caCert: '',
  clientCert: '',
  clientKey: '',
  skipsHostname: false,
}

let named: Certificates // for localhost
let numbered: Certificates // for 127.0.0.1
let open: RedisServer // accepts every client
let strict: RedisServer // requires client certificates
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
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 1 } // one attempt
  const { store } = createRedisStore(createRedisOptions(url, { startup, ...options }))
  try {
    await store.connect()
    return String(await addAll(store, [[`key_${Math.random()}`, 1]], NOW_SEC))
  } catch (error) {
    return (error as Error).message
  } finally {
    await store.close()
  }
}

async function startServer(options: RedisServerOptions): Promise<RedisServer> {
  const server = await startRedis(options)
  onTestFinished(() => server.stop())
  return server
}

const at = (host: string, server: RedisServer) => `${host}:${server.port}`

test('9.2: which certificates are accepted', async () => {
  const ca = { ...NONE, caCert: named.ca }
  const pair = { ...ca, clientCert: named.cert, clientKey: named.key }
  // biome-ignore format: the columns are the specification
  const cases = [
    // server                  files                                             -> 1, or the error
    [at('localhost', open),    ca,                                                  '1'],
    [at('localhost', open),    NONE,                                                'self-signed certificate in certificate chain'],
    [at('localhost', open),    { ...NONE, caCert: numbered.ca },                    'self-signed certificate in certificate chain'],
    [at('127.0.0.1', open),    ca,                                                  'does not match certificate'],
    [at('127.0.0.1', open),    { ...ca, skipsHostname: true },                      '1'],
    [at('localhost', open),    { ...NONE, skipsHostname: true },                    'self-signed certificate in certificate chain'],
    [at('localhost', strict),  pair,                                                '1'],
    [at('localhost', strict),  ca,                                                  'timed out waiting'], // then the text of OpenSSL
    [at('localhost', strict),  { ...ca, clientCert: named.cert },                   'timed out waiting'], // no key
    [`redis://${at('localhost', open)}/2`, ca,                                      '1'],
  ] as const
  for (const [url, tls, result] of cases)
    expect([url, await countAt(url, { tls })]).toEqual([url, expect.stringContaining(result)])
  expect(await countAt(at('localhost', open), {})).toContain('timed out waiting') // plain to a TLS port
  expect(await countAt(at('localhost', plain), { tls: ca, timeoutMs: 50 })).toContain('timed out waiting')
})

test('9.2: a sentinel and its master by TLS', async () => {
  const args = ['--requirepass', 'data']
  const master = await startServer({ tls: numbered, password: 'data', args })
  const sentinel = await startServer({
    tls: numbered,
    password: 'watch',
    args: ['--requirepass', 'watch'],
    sentinel: `tls-replication yes\nsentinel monitor mymaster 127.0.0.1 ${master.port} 1\nsentinel auth-pass mymaster data\n`,
  })
  const url = `mymaster,${sentinel.address}`
  const options = { type: 'sentinel', auth: 'data', sentinelAuth: 'watch' } as const
  expect(await countAt(url, { ...options, tls: { ...NONE, caCert: numbered.ca } })).toBe('1')
  expect(await countAt(url, { ...options, tls: NONE })).toContain('self-signed certificate')
})

test('9.2: a cluster by TLS, with a password', async () => {
  const [port, busPort] = [await freePort(), await freePort()]
  // biome-ignore format: pairs of name and value
  const args = ['--requirepass', 'data', '--cluster-enabled', 'yes', '--cluster-port', String(busPort),
    '--cluster-announce-ip', '127.0.0.1', '--tls-cluster', 'yes']
  const node = await startServer({ port, tls: numbered, password: 'data', args })
  await node.run('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383)
  await eventually(async () => expect(await node.run('CLUSTER', 'INFO')).toContain('cluster_state:ok'))
  const tls = { ...NONE, caCert: numbered.ca }
  expect(await countAt(node.address, { type: 'cluster', auth: 'data', tls })).toBe('1')
  expect(await countAt(`redis://:data@${node.address}`, { type: 'cluster', tls })).toBe('1')
  expect(await countAt(node.address, { type: 'cluster', auth: 'wrong', tls })).toContain('WRONGPASS')
  expect(await countAt(node.address, { type: 'cluster', tls })).toContain('NOAUTH')
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
