/** Who is counted (spec 4.3). */
import { describe, expect, test } from 'vitest'
import {
  type AddressHeader,
  addressText,
  DIRECT,
  getClientAddress,
  truncatedClient,
} from '../../../monitor/api/client-address.ts'
import { parseAddress, parseRange } from '../../../monitor/egress/address.ts'

const NONE = new Uint8Array(0)
const address = (text: string) => parseAddress(text) ?? NONE
const trusted = ['10.0.0.0/8', '2001:db8:ffff::/48'].map((text) => parseRange(text)!)
const behind = (peer: string, forwarded: string, header: AddressHeader = 'x-forwarded-for', more = {}) =>
  getClientAddress({ peer: address(peer), proxied: NONE, forwarded }, { ...DIRECT, trusted, header, ...more })

// biome-ignore format: the columns are the specification
const cases: [string, string, string][] = [
  // peer, X-Forwarded-For -> client
  ['203.0.113.7',          '6.6.6.6',                          '203.0.113.7'], // not trusted: not looked at
  ['::ffff:203.0.113.7',   '',                                 '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '',                                 '2001:db8:1:2::/64'],
  ['64:ff9b::1.2.3.4',     '',                                 '64:ff9b::/64'],
  ['10.0.0.1',             '',                                 '10.0.0.1'],
  ['10.0.0.1',             '198.51.100.1',                     '198.51.100.1'],
  ['::ffff:10.0.0.1',      '198.51.100.1',                     '198.51.100.1'],
  ['10.0.0.1',             '6.6.6.6, 198.51.100.1, 10.0.0.2',  '198.51.100.1'],
  ['10.0.0.1',             '10.0.0.4, 10.0.0.3',               '10.0.0.4'],    // all trusted: the leftmost
  ['10.0.0.1',             '198.51.100.1, nonsense, 10.0.0.2', '10.0.0.2'],    // the last good one
  ['10.0.0.1',             'nonsense',                         '10.0.0.1'],
  ['10.0.0.1',             '198.51.100.1:4711',                '198.51.100.1'],
  ['10.0.0.1',             '[2001:db8:1:2::9]:4711',           '2001:db8:1:2::/64'],
  ['10.0.0.1',             '[2001:db8:1:2::9]',                '2001:db8:1:2::/64'],
  ['10.0.0.1',             'fe80::1%eth0',                     'fe80::/64'],
  ['10.0.0.1',             '::ffff:198.51.100.1',              '198.51.100.1'],
  ['10.0.0.1',             `6.6.6.6${', 10.0.0.2'.repeat(32)}`, '10.0.0.2'],   // the 33rd is not looked at
  ['2001:db8:ffff::1',     '198.51.100.1',                     '198.51.100.1'],
]
for (const [peer, forwarded, client] of cases) {
  test(`M4.3#1-3: ${peer} with "${forwarded.slice(0, 40)}" is ${client}`, () =>
    expect(behind(peer, forwarded)).toBe(client))
}

describe('4.3: other headers', () => {
  // biome-ignore format: a table
  const others: [AddressHeader, string, string][] = [
    ['forwarded',        'for=6.6.6.6, For="[2001:db8:1:2::9]:80";proto=https, for=10.0.0.2', '2001:db8:1:2::/64'],
    ['forwarded',        'for=198.51.100.1:80;by=10.0.0.1', '198.51.100.1'],
    ['forwarded',        'for=_hidden',                     '10.0.0.1'],
    ['cf-connecting-ip', '198.51.100.1',                    '198.51.100.1'],
    ['x-real-ip',        '198.51.100.1',                    '198.51.100.1'],
  ]
  for (const [header, value, client] of others) {
    test(`M4.3#3: ${header}: ${value}`, () => expect(behind('10.0.0.1', value, header)).toBe(client))
  }

  test('M4.3#4: PROXY protocol only when it is on, and only from trusted peers', () => {
    const from = (peer: string, hasProxyProtocol: boolean) =>
      getClientAddress(
        { peer: address(peer), proxied: address('198.51.100.9'), forwarded: '' },
        { ...DIRECT, trusted, hasProxyProtocol },
      )
    expect(from('10.0.0.1', true)).toBe('198.51.100.9')
    expect(from('10.0.0.1', false)).toBe('10.0.0.1')
    expect(from('203.0.113.7', true)).toBe('203.0.113.7')
  })

  test('4.3: a Unix socket has no client address unless it is trusted', () => {
    expect(behind('', '198.51.100.1')).toBe('unix')
    expect(behind('', '198.51.100.1', 'x-forwarded-for', { trustsUnix: true })).toBe('198.51.100.1')
  })
})

test('4.3: IPV6_PREFIX', () => {
  expect(behind('2001:db8:1:2ff::9', '', 'x-forwarded-for', { ipv6Prefix: 56 })).toBe('2001:db8:1:200::/56')
  expect(behind('2001:db8:1:2ff::9', '', 'x-forwarded-for', { ipv6Prefix: 128 })).toBe('2001:db8:1:2ff::9')
})

for (const text of [
  '::',
  '::1',
  '1::',
  '2001:db8::1:0:0:1',
  '1:0:2:3:4:5:6:7',
  '0:1:2:3:4:5:6:7',
  '1:2:3:4:5:6:7:8',
]) {
  test(`4.3: ${text} is written as RFC 5952 has it`, () => expect(addressText(address(text))).toBe(text))
}

test('4.5: logs know the /24 or /48', () => {
  expect(truncatedClient('203.0.113.7')).toBe('203.0.113.0/24')
  expect(truncatedClient('2001:db8:1:2::/64')).toBe('2001:db8:1::/48')
})
