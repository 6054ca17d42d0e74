/** TLS to memcached (spec 9.6, as 9.2 for Redis), with a real memcached that speaks it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseSettings } from '../../../../engine/settings/parse.ts'
import { memcacheOptions } from '../../../../engine/stores/memcached/options.ts'
import { type Certificates, makeCertificates } from '../../../helpers/certificates.ts'
import { type MemcachedServer, startMemcached } from '../../../helpers/memcached.ts'
import { storeOn } from './harness.ts'

let files: Certificates
let foreign: Certificates
const servers: Record<string, MemcachedServer> = {}

/** `ssl_verify_mode` 2: clients must present a certificate. */
function startTls({ ca, cert, key }: Certificates, verifyMode: number): Promise<MemcachedServer> {
  const options = [
    `ssl_chain_cert=${cert}`,
    `ssl_key=${key}`,
    `ssl_ca_cert=${ca}`,
    `ssl_verify_mode=${verifyMode}`,
  ]
  return startMemcached({ args: ['-Z', '-o', options.join(',')] })
}

beforeAll(async () => {
  files = await makeCertificates('DNS:localhost,IP:127.0.0.1')
  foreign = await makeCertificates('DNS:elsewhere.test')
  servers.plain = await startMemcached()
  servers.tls = await startTls(files, 0)
  servers.strict = await startTls(files, 2)
  servers.elsewhere = await startTls(foreign, 0)
})
afterAll(async () => {
  for (const server of Object.values(servers)) await server.stop()
  await files.remove()
  await foreign.remove()
})

const CA = () => ({ MEMCACHE_TLS_CACERT: files.ca })
const PAIR = () => ({ MEMCACHE_TLS_CLIENT_CERT: files.cert, MEMCACHE_TLS_CLIENT_KEY: files.key })
const NO_NAMES = { MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: 'true' }

const NOT_TRUSTED = /self-signed certificate|unable to verify|signature/
const REFUSED = /certificate required|closed by the other side|ECONNRESET/

// biome-ignore format: the columns are the specification
const cases: [what: string, server: string, host: string, env: () => Record<string, string>, error: RegExp | null][] = [
  ['its CA is known',                    'tls',       'localhost', CA,                                     null],
  ['an address, which the certificate has', 'tls',    '127.0.0.1', CA,                                     null],
  ['its CA is unknown',                  'tls',       'localhost', () => ({}),                             NOT_TRUSTED],
  ['unknown, without checking names',    'tls',       'localhost', () => NO_NAMES,                         NOT_TRUSTED],
  ['another CA is known',                'tls',       'localhost', () => ({ MEMCACHE_TLS_CACERT: foreign.ca }), NOT_TRUSTED],
  ['it wants a certificate of us',       'strict',    'localhost', () => ({ ...CA(), ...PAIR() }),         null],
  ['it wants one and we have none',      'strict',    'localhost', CA,                                     REFUSED],
  ['one without its key is not used',    'strict',    'localhost', () => ({ ...CA(), MEMCACHE_TLS_CLIENT_CERT: files.cert }), REFUSED],
  ['its name is another',                'elsewhere', '127.0.0.1', () => ({ MEMCACHE_TLS_CACERT: foreign.ca }), /does not match certificate's altnames/],
  ['another name, without checking names', 'elsewhere', '127.0.0.1', () => ({ MEMCACHE_TLS_CACERT: foreign.ca, ...NO_NAMES }), null],
  ['it speaks no TLS',                   'plain',     'localhost', CA,                                     /wrong version number|packet length|closed by|no connection within/],
]

for (const [what, server, host, env, error] of cases) {
  test(`9.6: ${what}: ${error === null ? 'counts' : 'an error'}`, async () => {
    const address = `${host}:${servers[server].port}`
    const { settings } = parseSettings({ MEMCACHE_HOST_PORT: address, MEMCACHE_TLS: 'true', ...env() })
    const on = storeOn([], { ...memcacheOptions(settings), timeoutMs: 3_000 })
    await on.store.connect()
    const [[first]] = await on.add([['a', 1]])
    await on.store.close()
    if (error === null) expect(first).toBeTypeOf('number')
    else expect(first).toMatch(error)
  })
}

test('TLS is off by default, and its files are then not read', () => {
  const { settings } = parseSettings({ MEMCACHE_TLS_CACERT: '/no/such/file' })
  expect(memcacheOptions(settings).tls).toBeNull()
})

// biome-ignore format: the columns are the specification
const wrong: [what: string, env: () => Record<string, string>, message: RegExp][] = [
  ['a CA that is not there', () => ({ MEMCACHE_TLS_CACERT: '/no/such/file' }), /^MEMCACHE_TLS_CACERT: failed to read file: \/no\/such\/file: ENOENT.* \[TLS_FILES_UNUSABLE\]$/],
  ['a CA that is none',      () => ({ MEMCACHE_TLS_CACERT: files.key }),       /^MEMCACHE_TLS_CACERT: failed to load the provided TLS CA certificate: .*it contains no certificate/],
  ['a key of another',       () => ({ MEMCACHE_TLS_CLIENT_CERT: foreign.cert, MEMCACHE_TLS_CLIENT_KEY: files.key }), /key values mismatch/],
]

for (const [what, env, message] of wrong) {
  test(`9.6: ${what} ends the start`, () => {
    const { settings } = parseSettings({ MEMCACHE_TLS: 'true', ...env() })
    expect(() => memcacheOptions(settings)).toThrow(message)
  })
}
