/**
 * Addresses as bytes, and ranges of them, parsed by ipaddr.js. Parsing is strict: anything but the plain form of an address
 * is null, which every caller denies. Zone ids, octal, hexadecimal and short forms are not accepted, though the package
 * accepts them; `URL` normalises the latter three, sockets and DNS never return them.
 *
 *     parseAddress('10.1.2.3')   4 bytes          parseRange('10.0.0.0/8')   contains(range, address)
 *     parseAddress('2001:db8::1')   16 bytes      parseRange('10.1.2.3')     one address
 */
import ipaddr from 'ipaddr.js'

export type Address = Uint8Array // of 4 or of 16 bytes: IPv4 or IPv6

export interface Range {
  base: Address
  bits: number // 0 to 32, 0 to 128
}

const ADDRESS_CHARS_MAX = 45 // of the longest form: six groups and four decimal parts

export function parseAddress(text: string): Address | null {
  if (text.length > ADDRESS_CHARS_MAX) return null
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text)
}

export function parseRange(text: string): Range | null {
  const [address, bitsText, ...rest] = text.split('/')
  const base = parseAddress(address)
  if (base === null || rest.length > 0) return null
  if (bitsText === undefined) return { base, bits: base.length * 8 }
  if (!/^(0|[1-9][0-9]{0,2})$/.test(bitsText) || Number(bitsText) > base.length * 8) return null
  return { base, bits: Number(bitsText) }
}

/** Families never match: an IPv4 range contains no mapped IPv6 address. */
export function contains({ base, bits }: Range, address: Address): boolean {
  if (base.length !== address.length) return false
  const wholeBytes = bits >> 3
  for (let i = 0; i < wholeBytes; i++) if (base[i] !== address[i]) return false
  const mask = 0xff00 >> (bits & 7)
  return (bits & 7) === 0 || (base[wholeBytes] & mask) === (address[wholeBytes] & mask)
}

export function isSameAddress(one: string | undefined, other: string): boolean {
  const a = parseAddress(one ?? '')
  const b = parseAddress(other)
  return a !== null && b !== null && a.length === b.length && a.every((byte, i) => byte === b[i])
}

function parseIpv4(text: string): Address | null {
  return ipaddr.IPv4.isValidFourPartDecimal(text) ? Uint8Array.from(ipaddr.IPv4.parse(text).octets) : null
}

/** A decimal end is rewritten as two groups: the package accepts octal parts there, and reads `::1.2.3.4` as `::ffff:1.2.3.4`. */
function parseIpv6(text: string): Address | null {
  if (text.includes('%')) return null
  const end = text.slice(text.lastIndexOf(':') + 1)
  let groups = text
  if (end.includes('.')) {
    const bytes = parseIpv4(end)
    if (bytes === null) return null
    const [high, low] = [(bytes[0] << 8) | bytes[1], (bytes[2] << 8) | bytes[3]]
    groups = `${text.slice(0, -end.length)}${high.toString(16)}:${low.toString(16)}`
  }
  try {
    return Uint8Array.from(ipaddr.IPv6.parse(groups).toByteArray())
  } catch {
    return null
  }
}
