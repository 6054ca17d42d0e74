/**
 * A second check for global unicast addresses that is independent of address-policy.ts: another parser (`net.BlockList`
 * instead of ipaddr.js), another matcher, another source (IANA's special-purpose registries and the multicast and reserved
 * blocks instead of the spec's list). Both checks must agree.
 */
import { BlockList, isIP } from 'node:net'

// biome-ignore format: rows of the registries
const IPV4: [string, number][] = [
  ['0.0.0.0', 8],       ['10.0.0.0', 8],      ['100.64.0.0', 10],   ['127.0.0.0', 8],     ['169.254.0.0', 16],
  ['172.16.0.0', 12],   ['192.0.0.0', 24],    ['192.0.2.0', 24],    ['192.31.196.0', 24], ['192.52.193.0', 24],
  ['192.88.99.0', 24],  ['192.168.0.0', 16],  ['192.175.48.0', 24], ['198.18.0.0', 15],   ['198.51.100.0', 24],
  ['203.0.113.0', 24],  ['224.0.0.0', 4],     ['240.0.0.0', 4],     ['255.255.255.255', 32],
]
// biome-ignore format: rows of the registries
const IPV6: [string, number][] = [
  ['::1', 128],        ['::', 128],          ['::ffff:0:0', 96],   ['64:ff9b::', 96],     ['64:ff9b:1::', 48],
  ['100::', 64],       ['100:0:0:1::', 64],  ['2001::', 23],       ['2001:db8::', 32],    ['2002::', 16],
  ['2620:4f:8000::', 48], ['3fff::', 20],    ['5f00::', 16],       ['fc00::', 7],         ['fe80::', 10],
  ['fec0::', 10],      ['ff00::', 8],        ['::', 8],
]

const special4 = new BlockList()
for (const [base, bits] of IPV4) special4.addSubnet(base, bits, 'ipv4')
const special6 = new BlockList() // separate: a list with ::ffff:0:0/96 matches every IPv4 address
for (const [base, bits] of IPV6) special6.addSubnet(base, bits, 'ipv6')

export function isUnicast(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !special4.check(address, 'ipv4')
  if (family === 6) return !address.includes('%') && !special6.check(address, 'ipv6')
  return false
}
