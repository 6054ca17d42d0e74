/**
 * Addresses as bytes, and ranges of them. Parsing is strict: anything but the plain form of an address is null, which every
 * caller denies. Zone ids, octal and short forms are not accepted; `URL` normalises the latter, sockets and DNS never
 * return them.
 *
 *     parseAddress('10.1.2.3')   4 bytes          parseRange('10.0.0.0/8')   contains(range, address)
 *     parseAddress('2001:db8::1')   16 bytes      parseRange('10.1.2.3')     one address
 */

export type Address = Uint8Array // of 4 or of 16 bytes: IPv4 or IPv6

export interface Range {
  base: Address
  bits: number // 0 to 32, 0 to 128
}

export function parseAddress(text: string): Address | null {
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
  const parts = text.split('.')
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part))) return null
  const bytes = parts.map(Number)
  return bytes.every((byte) => byte <= 255) ? Uint8Array.from(bytes) : null
}

function parseIpv6(text: string): Address | null {
  const halves = text.split('::')
  if (halves.length > 2) return null
  const head = parseGroups(halves[0], halves.length === 1)
  const tail = parseGroups(halves[1] ?? '', true)
  if (head === null || tail === null) return null
  const missing = 16 - head.length - tail.length
  if (halves.length === 1 ? missing !== 0 : missing < 2) return null // `::` stands for at least one group
  return Uint8Array.from([...head, ...new Array<number>(missing).fill(0), ...tail])
}

/** The bytes of `2001:db8`, `ffff:1.2.3.4` or an empty text. The dotted form is accepted at the end of an address only. */
function parseGroups(text: string, isEnd: boolean): number[] | null {
  if (text === '') return []
  const groups = text.split(':')
  const bytes: number[] = []
  for (const [i, group] of groups.entries()) {
    if (/^[0-9a-f]{1,4}$/i.test(group)) {
      const value = Number.parseInt(group, 16)
      bytes.push(value >> 8, value & 0xff)
      continue
    }
    const dotted = isEnd && i === groups.length - 1 ? parseIpv4(group) : null
    if (dotted === null) return null
    bytes.push(...dotted)
  }
  return bytes
}
