/**
 * Refuses private, internal and reserved addresses (SSRF). Only global unicast may be connected to, and never this installation itself (spec 5.4).
 *
 *     test override ─► allowed    IPv6 under NAT64_PREFIX ─► its embedded IPv4 is checked instead
 *     everything else: embedded · reserved · own interface, own name, cache backend · EGRESS_DENY · special-purpose ranges
 *
 * Addresses are passed as text, because text is what is connected to. Text that is not an address is denied.
 */
import { networkInterfaces } from 'node:os'
import type { Address, Range } from './address.ts'
import { contains, isSameAddress, parseAddress, parseRange } from './address.ts'
import { isUnicast } from './special-ranges.ts'

export type AddressDenial = 'invalid' | 'reserved' | 'embedded' | 'own' | 'denied_range' | 'special_range'

export interface AddressPolicy {
  deny: readonly Range[] // EGRESS_DENY
  nat64: Range | null // of 96 bits
  testAllow: readonly Range[] // empty outside tests
}

const ranges = (...texts: string[]): Range[] => texts.map((text) => parseRange(text) as Range)

// biome-ignore format: the table of spec 5.4
const RESERVED = ranges(
  '0.0.0.0/8',       '10.0.0.0/8',      '100.64.0.0/10',   '127.0.0.0/8',     '169.254.0.0/16',
  '172.16.0.0/12',   '192.0.0.0/24',    '192.0.2.0/24',    '192.88.99.0/24',  '192.168.0.0/16',
  '198.18.0.0/15',   '198.51.100.0/24', '203.0.113.0/24',  '224.0.0.0/4',     '240.0.0.0/4',
  '168.63.129.16/32', // metadata of a cloud, outside the reserved ranges
  '2001::/23',       '2001:db8::/32',   '2002::/16',       '3fff::/20',
)
const GLOBAL_IPV6 = ranges('2000::/3')[0]
const EMBEDDED = ranges('::ffff:0:0/96', '::/96', '64:ff9b::/96')

/**
 * The reason for denial, or null. `own`: addresses of this installation that no interface shows: PUBLIC_BASE_URL, the proxy, the
 * cache backend. Reading `interfaces` takes about 0.1 ms; callers with many addresses read them once.
 */
export function addressDenial(
  text: string,
  policy: AddressPolicy,
  own: readonly string[],
  interfaces = interfaceAddresses(),
): AddressDenial | null {
  const address = parseAddress(text)
  if (address === null) return 'invalid'
  if (isIn(policy.testAllow, address)) return null
  if (isIn(policy.deny, address)) return 'denied_range'
  if ([...own, ...interfaces].some((each) => isSameAddress(each, text))) return 'own'
  if (policy.nat64 !== null && contains(policy.nat64, address)) {
    return addressDenial(address.slice(12).join('.'), policy, own, interfaces)
  }
  if (isIn(EMBEDDED, address)) return 'embedded'
  if (isIn(RESERVED, address)) return 'reserved'
  if (address.length === 16 && !contains(GLOBAL_IPV6, address)) return 'reserved'
  return isUnicast(text) ? null : 'special_range'
}

function isIn(list: readonly Range[], address: Address): boolean {
  return list.some((range) => contains(range, address))
}

/** Of this host, read anew because they change. */
export function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => entries?.map(({ address }) => address) ?? [])
}
