/** The environment's part, and that overrides of tests stay in tests. */
import { expect, test } from 'vitest'
import { Egress } from '../../../monitor/egress/egress.ts'
import { egressSettings } from '../../../monitor/egress/settings.ts'

test('M5#1: the defaults', () => {
  const settings = egressSettings({})
  expect([...settings.ports]).toEqual([80, 443, 3000, 8000, 8080, 8443])
  expect(settings).toMatchObject({ deny: [], nat64: null, publicBaseUrl: null, proxy: null, testAllow: [] })
  expect(settings.testHosts.size).toBe(0)
})

test('5: valid settings', () => {
  const settings = egressSettings({
    PROBE_PORTS: '80, 9000,',
    EGRESS_DENY: '10.9.0.0/16,2001:db8:7::/48,9.9.9.9',
    NAT64_PREFIX: '64:ff9b::/96',
    PUBLIC_BASE_URL: 'https://monitor.example.org',
  })
  expect([...settings.ports]).toEqual([80, 9000])
  expect(settings.deny.map((range) => range.bits)).toEqual([16, 48, 32])
  expect(settings.nat64?.bits).toBe(96)
  expect(settings.publicBaseUrl?.hostname).toBe('monitor.example.org')
})

const OUTSIDE =
  'allows addresses that must stay denied. Unset it, or set NODE_ENV=test in a test. [EGRESS_SETTING]'
for (const name of ['EGRESS_TEST_ALLOW', 'EGRESS_TEST_HOSTS']) {
  test(`M5#14: ${name} outside tests is no start`, () => {
    for (const NODE_ENV of [undefined, '', 'production', 'Test', 'test ']) {
      expect(() => egressSettings({ NODE_ENV, [name]: 'anything' })).toThrow(`${name}: ${OUTSIDE}`)
    }
    expect(() => egressSettings({ NODE_ENV: 'production', [name]: '' })).not.toThrow()
  })
}

test('M5#14: in a test they are read', () => {
  const env = {
    NODE_ENV: 'test',
    EGRESS_TEST_ALLOW: '127.0.0.0/8',
    EGRESS_TEST_HOSTS: 'A.example.com=127.0.0.1:4000,b.example.com=::1:4001',
  }
  const settings = egressSettings(env)
  expect(settings.testAllow.map((range) => range.bits)).toEqual([8])
  expect(Object.fromEntries(settings.testHosts)).toEqual({
    'a.example.com': { address: '127.0.0.1', port: 4000 },
    'b.example.com': { address: '::1', port: 4001 },
  })
})

// biome-ignore format: the columns are the specification
const wrong = [
  ['PROBE_PORTS',       '80,http',              'PROBE_PORTS: "http" is not a port. Write numbers from 1 to 65535. [EGRESS_SETTING]'],
  ['PROBE_PORTS',       '0',                    'PROBE_PORTS: "0" is not a port. Write numbers from 1 to 65535. [EGRESS_SETTING]'],
  ['PROBE_PORTS',       '65536',                'PROBE_PORTS: "65536" is not a port. Write numbers from 1 to 65535. [EGRESS_SETTING]'],
  ['PROBE_PORTS',       '1,'.repeat(33),        'PROBE_PORTS: has 34 items. Write at most 32. [EGRESS_SETTING]'],
  ['EGRESS_DENY',       '10.0.0.0/33',          'EGRESS_DENY: "10.0.0.0/33" is not a range. Write an address, or one with /bits. [EGRESS_SETTING]'],
  ['NAT64_PREFIX',      '64:ff9b::/64',         'NAT64_PREFIX: is not an IPv6 prefix of 96 bits. Write it like 64:ff9b::/96. [EGRESS_SETTING]'],
  ['NAT64_PREFIX',      '10.0.0.0/8',           'NAT64_PREFIX: is not an IPv6 prefix of 96 bits. Write it like 64:ff9b::/96. [EGRESS_SETTING]'],
  ['PUBLIC_BASE_URL',   'monitor.example.org',  'PUBLIC_BASE_URL: is not the URL of a site. Write it like https://monitor.example.org. [EGRESS_SETTING]'],
  ['PUBLIC_BASE_URL',   'https://me:secret@a.example', 'PUBLIC_BASE_URL: "https://a.example…" has a user name or password. Write it like https://monitor.example.org. [EGRESS_SETTING]'],
  ['PUBLIC_BASE_URL',   'https://a.example/monitor',   'PUBLIC_BASE_URL: "https://a.example…" has a path. Write it like https://monitor.example.org. [EGRESS_SETTING]'],
  ['PUBLIC_BASE_URL',   'https://a.example/?',         'PUBLIC_BASE_URL: "https://a.example…" has a query. Write it like https://monitor.example.org. [EGRESS_SETTING]'],
  ['PUBLIC_BASE_URL',   'https://a.example/#top',      'PUBLIC_BASE_URL: "https://a.example…" has a fragment. Write it like https://monitor.example.org. [EGRESS_SETTING]'],
  ['EGRESS_TEST_HOSTS', 'a.example.com',        'EGRESS_TEST_HOSTS: "a.example.com" is not a host. Write it like name=127.0.0.1:4000. [EGRESS_SETTING]'],
] as const
for (const [name, value, message] of wrong) {
  test(`12: ${name}=${value.slice(0, 20)} stops the start with one line`, () => {
    expect(() => egressSettings({ NODE_ENV: 'test', [name]: value })).toThrow(message)
  })
}

// biome-ignore format: the columns are the specification
const proxies = [
  // EGRESS_PROXY                          host           port   user:password
  ['http://proxy:3128',                    'proxy',       3128,  null],
  ['HTTP://10.0.0.9:80/',                  '10.0.0.9',    80,    null],
  ['http://[fd00::9]:8080',                'fd00::9',     8080,  null],
  ['http://me:p%40ss%3Aword@proxy:3128',   'proxy',       3128,  'me:p@ss:word'],
  ['http://me@proxy:3128',                 'proxy',       3128,  'me:'],
] as const
for (const [text, host, port, credentials] of proxies) {
  test(`5.8: EGRESS_PROXY=${text}`, () => {
    const authorization = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`
    expect(egressSettings({ EGRESS_PROXY: text }).proxy).toEqual({ host, port, authorization })
  })
}

// biome-ignore format: one per row
const noProxies = [
  'proxy:3128', 'http://proxy', 'http://proxy:0', 'http://proxy:65536', 'https://proxy:3128', 'socks5://proxy:1080',
  'http://:3128', 'http://proxy:3128/path', 'http://proxy:3128?a', 'http://proxy:3128#a', 'http://proxy\\:3128',
  'http://me:secret@', 'http://me:secret@proxy', 'http://me:secret%zz@proxy:3128', 'http://me:sec/ret@proxy:3128',
  'http://me:sec@ret@proxy:3128', 'http://m%3Ae:secret@proxy:3128', 'http://me:secret%0a@proxy:3128', 'direct',
]
for (const text of noProxies) {
  test(`12: EGRESS_PROXY=${text} stops the start with one line, without the password`, () => {
    const what = 'EGRESS_PROXY: is not the URL of an HTTP proxy.'
    const fix =
      'Write it like http://proxy:3128 or http://user:password@proxy:3128, with %40 for an @ in a password.'
    expect(() => egressSettings({ EGRESS_PROXY: text })).toThrow(
      expect.objectContaining({ message: `${what} ${fix} [EGRESS_SETTING]` }),
    )
  })
}

test('5.14: a test host has the given address, which its range must allow', async () => {
  const env = { NODE_ENV: 'test', EGRESS_TEST_HOSTS: 'a.example.com=10.0.0.1:80' }
  const egress = new Egress({ settings: egressSettings(env), version: '1' })
  const visit = await egress.visit({ url: 'http://a.example.com/', purpose: 'catalogue' })
  expect([visit.error, visit.detail]).toEqual(['dns_bogus', 'reserved'])
})
