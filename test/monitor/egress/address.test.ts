/** Text to bytes, ranges, and the table of spec 5.4 at each of its edges. */
import { isIP } from 'node:net'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { expect, test } from 'vitest'
import { contains, isSameAddress, parseAddress, parseRange } from '../../../monitor/egress/address.ts'
import { addressDenial, interfaceAddresses } from '../../../monitor/egress/address-policy.ts'
import { isUnicast } from '../../../monitor/egress/special-ranges.ts'
import { size } from '../../helpers/size.ts'

const policy = { deny: [], nat64: null, testAllow: [] }
const numRuns = size({ small: 2_000, full: 100_000 })
const range = (text: string) => parseRange(text) ?? expect.fail(`${text} is a range`)

// biome-ignore format: the columns are the specification
const parsed = [
  ['1.2.3.4',              '1 2 3 4'],
  ['255.255.255.255',      '255 255 255 255'],
  ['::',                   '0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0'],
  ['::1',                  '0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1'],
  ['2001:DB8::',           '32 1 13 184 0 0 0 0 0 0 0 0 0 0 0 0'],
  ['1:2:3:4:5:6:7:8',      '0 1 0 2 0 3 0 4 0 5 0 6 0 7 0 8'],
  ['1:2:3:4:5:6:7::',      '0 1 0 2 0 3 0 4 0 5 0 6 0 7 0 0'],
  ['::ffff:1.2.3.4',       '0 0 0 0 0 0 0 0 0 0 255 255 1 2 3 4'],
  ['64:ff9b::10.0.0.1',    '0 100 255 155 0 0 0 0 0 0 0 0 10 0 0 1'],
  ['::1.2.3.4',            '0 0 0 0 0 0 0 0 0 0 0 0 1 2 3 4'], // not mapped, unlike ipaddr.js
  ['1:2:3:4:5:6:1.2.3.4',  '0 1 0 2 0 3 0 4 0 5 0 6 1 2 3 4'],
  ['1::1.2.3.4',           '0 1 0 0 0 0 0 0 0 0 0 0 1 2 3 4'],
  ['2002:7f00:1::',        '32 2 127 0 0 1 0 0 0 0 0 0 0 0 0 0'], // 6to4
  ['2001:0:7f00:1::1',     '32 1 0 0 127 0 0 1 0 0 0 0 0 0 0 1'], // Teredo
  ['ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255', `${'255 '.repeat(15)}255`],
] as const
for (const [text, bytes] of parsed) {
  test(`${text} is parsed`, () => expect(parseAddress(text)?.join(' ')).toBe(bytes))
}

// biome-ignore format: one kind of wrong per column
const refused = [
  '', '.', '1', '1.2.3', '1.2.3.4.5', '1.2.3.4.', '256.1.1.1', '01.2.3.4', '0x1.2.3.4', ' 1.2.3.4', '1.2.3.4 ', '+1.2.3.4',
  ':', ':::', '1::2::3', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8::', '::1:2:3:4:5:6:7:8', '12345::', 'g::',
  '0177.0.0.1', '0x7f.0.0.1', '127.1', '2130706433', '0300.0250.0.1', '1.2.3.4%eth0', '1.2.3.4\n',
  '::ffff:0x7f.0.0.1', '::ffff:0177.0.0.1', '::0x7f.0.0.1', '::ffff:127.1', '::1%', '::%1', '::1.2.3.4%eth0', '::ffff:1.2.3.4%1',
  `${'0'.repeat(41)}::1`, '0:0:0:0:0:0:0:0:', '0:0:0:0:0:0:0::0:', '1::2:', '\u0661.2.3.4',
  'fe80::1%eth0', '::1.2.3', '1.2.3.4::', '::1.2.3.4:1', '[::1]', '::ffff:1.2.3.256', '1.2.3.4:80', ':1:2:3:4:5:6:7',
]
for (const text of refused) {
  test(`"${text}" is not an address, and is denied`, () => {
    expect(parseAddress(text)).toBeNull()
    expect(addressDenial(text, policy, [])).toBe('invalid')
    expect(isUnicast(text)).toBe(false)
  })
}

// biome-ignore format: the columns are the specification
const contained = [
  ['10.0.0.0/8',      '10.255.255.255', true],
  ['10.0.0.0/8',      '11.0.0.0',       false],
  ['100.64.0.0/10',   '100.127.255.255',true],
  ['100.64.0.0/10',   '100.128.0.0',    false],
  ['0.0.0.0/0',       '9.9.9.9',        true],
  ['0.0.0.0/0',       '::1',            false],
  ['::/0',            '1.1.1.1',        false],
  ['1.2.3.4',         '1.2.3.4',        true],
  ['1.2.3.4/31',      '1.2.3.5',        true],
  ['1.2.3.4/32',      '1.2.3.5',        false],
  ['2000::/3',        '3fff:ffff::1',   true],
  ['2000::/3',        '4000::',         false],
] as const
for (const [text, address, isContained] of contained) {
  test(`${text} ${isContained ? 'contains' : 'does not contain'} ${address}`, () => {
    expect(contains(range(text), parseAddress(address) ?? expect.fail())).toBe(isContained)
  })
}

test('texts that are not ranges', () => {
  for (const text of [
    '1.2.3.4/33',
    '::/129',
    '1.2.3.4/',
    '1.2.3.4/01',
    '1.2.3.4/8/8',
    'a/8',
    '/8',
    '1.2.3.4/-1',
  ]) {
    expect([text, parseRange(text)]).toEqual([text, null])
  }
})

test('5.6: two spellings of an address are the same address; an absent one is not', () => {
  expect(isSameAddress('2001:DB8:0::1', '2001:db8::1')).toBe(true)
  expect(isSameAddress('1.2.3.4', '::ffff:1.2.3.4')).toBe(false)
  expect(isSameAddress(undefined, '1.2.3.4')).toBe(false)
  expect(isSameAddress('', '')).toBe(false)
})

// Each range by its first and last address, and by its neighbours on both sides, which are public.
// biome-ignore format: the table of the specification
const reserved = [
  // just before        first              last               just after
  [null,               '0.0.0.0',         '0.255.255.255',   '1.0.0.0'],
  ['9.255.255.255',    '10.0.0.0',        '10.255.255.255',  '11.0.0.0'],
  ['100.63.255.255',   '100.64.0.0',      '100.127.255.255', '100.128.0.0'],
  ['126.255.255.255',  '127.0.0.0',       '127.255.255.255', '128.0.0.0'],
  ['169.253.255.255',  '169.254.0.0',     '169.254.255.255', '169.255.0.0'],
  ['172.15.255.255',   '172.16.0.0',      '172.31.255.255',  '172.32.0.0'],
  ['191.255.255.255',  '192.0.0.0',       '192.0.0.255',     '192.0.1.0'],
  ['192.0.1.255',      '192.0.2.0',       '192.0.2.255',     '192.0.3.0'],
  ['192.88.98.255',    '192.88.99.0',     '192.88.99.255',   '192.88.100.0'],
  ['192.167.255.255',  '192.168.0.0',     '192.168.255.255', '192.169.0.0'],
  ['198.17.255.255',   '198.18.0.0',      '198.19.255.255',  '198.20.0.0'],
  ['198.51.99.255',    '198.51.100.0',    '198.51.100.255',  '198.51.101.0'],
  ['203.0.112.255',    '203.0.113.0',     '203.0.113.255',   '203.0.114.0'],
  ['223.255.255.255',  '224.0.0.0',       '239.255.255.255', null],
  [null,               '240.0.0.0',       '255.255.255.255', null],
  ['168.63.129.15',    '168.63.129.16',   '168.63.129.16',   '168.63.129.17'],
  [null,               '1fff:ffff::',     '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', null],
  [null,               '2001::',          '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff',  '2001:200::'],
  ['2001:db7:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db9::'],
  ['2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2002::',    '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2003::'],
  ['3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff::',    '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff',  '3fff:1000::'],
  ['3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '4000::',    'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', null],
] as const
for (const [before, first, last, after] of reserved) {
  test(`M5#4: ${first} to ${last} is denied, its neighbours are not`, () => {
    for (const address of [first, last]) {
      expect([address, addressDenial(address, policy, [])]).toEqual([address, 'reserved'])
    }
    for (const address of [before, after]) {
      if (address !== null) expect([address, addressDenial(address, policy, [])]).toEqual([address, null])
    }
  })
}

test('5.4: both checks agree on every reserved range except the one of a cloud', () => {
  for (const address of reserved.flatMap(([, first, last]) => [first, last])) {
    // 168.63.129.16 and unassigned blocks outside 2000::/3 are in no registry of special purposes
    if (address === '168.63.129.16' || address.startsWith('1fff') || address === '4000::') continue
    expect([address, isUnicast(address)]).toEqual([address, false])
  }
})

test('5.4: the second check alone denies too', () => {
  for (const address of ['192.31.196.1', '192.52.193.1', '192.175.48.1', '2620:4f:8000::1']) {
    expect([address, addressDenial(address, policy, [])]).toEqual([address, 'special_range'])
  }
})

test('M5#4: addresses that embed IPv4 are denied, public or not', () => {
  for (const address of [
    '::ffff:8.8.8.8',
    '::ffff:0808:0808',
    '::8.8.8.8',
    '64:ff9b::8.8.8.8',
    '::1',
    '::',
  ]) {
    const own = address === '::1' ? 'own' : 'embedded'
    expect([address, addressDenial(address, policy, [])]).toEqual([address, own])
  }
})

test('5.4: under NAT64_PREFIX the embedded IPv4 is checked', () => {
  const nat64 = range('64:ff9b::/96')
  const denial = (address: string) =>
    addressDenial(address, { ...policy, nat64, deny: [range('9.9.9.9')] }, [])
  expect(denial('64:ff9b::8.8.8.8')).toBeNull()
  expect(denial('64:ff9b::10.0.0.1')).toBe('reserved')
  expect(denial('64:ff9b::127.0.0.1')).toBe('own')
  expect(denial('64:ff9b::9.9.9.9')).toBe('denied_range')
  expect(denial('64:ff9b:1::8.8.8.8')).toBe('reserved')
  expect(denial('::ffff:8.8.8.8')).toBe('embedded')
})

test('M5#4: EGRESS_DENY and addresses of this installation', () => {
  const deny = [range('8.8.0.0/16'), range('2606:4700::/32')]
  expect(addressDenial('8.8.4.4', { ...policy, deny }, [])).toBe('denied_range')
  expect(addressDenial('2606:4700::1111', { ...policy, deny }, [])).toBe('denied_range')
  expect(addressDenial('9.9.9.9', policy, ['2620:fe::9', '9.9.9.9'])).toBe('own')
  expect(addressDenial('2620:fe:0::9', policy, ['2620:fe::9'])).toBe('own')
  expect(addressDenial('127.0.0.1', policy, [])).toBe('own') // the interface
})

test('5.4: interfaces are read once for many addresses', () => {
  const interfaces = interfaceAddresses()
  expect(interfaces).toContain('127.0.0.1')
  expect(addressDenial('9.9.9.9', policy, [], ['9.9.9.9'])).toBe('own')
  expect(
    addressDenial('64:ff9b::9.9.9.9', { ...policy, nat64: range('64:ff9b::/96') }, [], ['9.9.9.9']),
  ).toBe('own')
})

test('5.14: the override of tests allows its range and nothing else', () => {
  const testAllow = [range('127.0.0.0/30')]
  expect(addressDenial('127.0.0.3', { ...policy, testAllow }, [])).toBeNull()
  expect(addressDenial('127.0.0.4', { ...policy, testAllow }, [])).toBe('reserved')
})

test('any 16 bytes, written by URL, are parsed to the same bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
      const groups = Array.from({ length: 8 }, (_, i) =>
        ((bytes[2 * i] << 8) | bytes[2 * i + 1]).toString(16),
      )
      const text = new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1)
      expect(parseAddress(text)).toEqual(bytes)
    }),
  )
})

test('a text is an address exactly if Node connects to it as one, zone ids aside', () => {
  const forms = fc.constantFrom(
    '1.2.3.4',
    '::',
    '1::8',
    '1:2:3:4:5:6:7:8',
    '::ffff:1.2.3.4',
    '1:2:3:4:5:6:7::',
    '0x7f.1',
  )
  const edits = fc.array(
    fc.tuple(
      fc.nat(20),
      fc.nat(1),
      fc.constantFrom('', ':', '::', '.', '0', '1', 'f', 'x', 'g', '%', '/', ' ', '-', '\n'),
    ),
    { maxLength: 4 },
  )
  fc.assert(
    fc.property(forms, edits, (form, changes) => {
      let text = form
      for (const [at, removed, added] of changes) text = text.slice(0, at) + added + text.slice(at + removed)
      const isAddress = isIP(text) !== 0 && !text.includes('%')
      expect([text, parseAddress(text) !== null]).toEqual([text, isAddress])
    }),
    { numRuns },
  )
})

test('5.4: an address that ipaddr.js or the second check refuses is never allowed', () => {
  const interfaces = interfaceAddresses()
  const bytes = fc.oneof(fc.ipV4(), fc.ipV6())
  fc.assert(
    fc.property(bytes, (address) => {
      if (addressDenial(address, policy, [], interfaces) !== null) return
      expect([address, isUnicast(address), ipaddr.parse(address).range()]).toEqual([address, true, 'unicast'])
    }),
    { numRuns },
  )
})
