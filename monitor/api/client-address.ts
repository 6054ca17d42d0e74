/**
 * The client address that quotas count (spec 4.3).
 *
 *     peer not in TRUSTED_PROXIES  ─► the peer; headers are ignored
 *     peer in it                   ─► the header, read from the right: the first address that is not trusted
 *
 *     203.0.113.7, ::ffff:203.0.113.7   ─► 203.0.113.7
 *     2001:db8:1:2::9                   ─► 2001:db8:1:2::/64     (IPV6_PREFIX), as RFC 5952 writes it
 */
import ipaddr from 'ipaddr.js'
import { type Address, contains, parseAddress, type Range } from '../egress/address.ts'

const ELEMENTS_MAX = 32 // of a list; those further left are ignored

export type AddressHeader = 'x-forwarded-for' | 'forwarded' | 'cf-connecting-ip' | 'x-real-ip'

export interface AddressOptions {
  trusted: readonly Range[] // TRUSTED_PROXIES
  header: AddressHeader // CLIENT_IP_HEADER
  hasProxyProtocol: boolean // PROXY_PROTOCOL
  trustsUnix: boolean // TRUST_UNIX
  ipv6Prefix: number // 48 to 128
}

export const DIRECT: AddressOptions = {
  trusted: [],
  header: 'x-forwarded-for',
  hasProxyProtocol: false,
  trustsUnix: false,
  ipv6Prefix: 64,
}

export interface Forwarding {
  peer: Uint8Array
  proxied: Uint8Array
  forwarded: string
}

/** The descriptor value `ip`; `unix` for a Unix socket without a forwarded address. */
export function getClientAddress({ peer, proxied, forwarded }: Forwarding, options: AddressOptions): string {
  let address = plain(peer)
  if (!isTrusted(address, options)) return clientText(address, options)
  if (options.hasProxyProtocol && proxied.length > 0) address = plain(proxied)
  if (forwarded !== '' && isTrusted(address, options)) address = walk(forwarded, address, options)
  return clientText(address, options)
}

/** A trusted proxy: its headers are believed, and its connections carry many clients. */
export function isTrustedPeer(peer: Uint8Array, options: AddressOptions): boolean {
  return isTrusted(plain(peer), options)
}

/** For logs: the /24 or /48 of the address. */
export function truncatedClient(client: string): string {
  const address = parseAddress(client.split('/')[0])
  if (address === null) return client
  return rangeText(address, address.length === 4 ? 24 : 48)
}

/** IPv6 as RFC 5952 writes it: lower case, no leading zeros, the longest run of two or more zero groups as `::`. */
export function addressText(address: Address): string {
  return address.length === 4 ? address.join('.') : ipaddr.fromByteArray([...address]).toString()
}

/** Walks past trusted addresses from the right; a malformed element ends the walk at the last valid one. */
function walk(header: string, peer: Address, options: AddressOptions): Address {
  const elements = header.split(',').slice(-ELEMENTS_MAX)
  let found = peer
  for (const element of elements.reverse()) {
    const address = elementAddress(element.trim(), options.header)
    if (address === null) return found
    found = address
    if (!isTrusted(address, options)) return found
  }
  return found
}

function elementAddress(element: string, header: AddressHeader): Address | null {
  let text = element
  if (header === 'forwarded') {
    const pair = element.split(';').find((part) => /^\s*for=/i.test(part))
    text = (pair?.slice(pair.indexOf('=') + 1) ?? '').trim().replace(/^"(.*)"$/, '$1')
  }
  const bracketed = /^\[([^\]]*)\](?::[0-9]{1,5})?$/.exec(text)
  const withPort = /^([0-9.]+):[0-9]{1,5}$/.exec(text)
  const bare = (bracketed?.[1] ?? withPort?.[1] ?? text).split('%')[0]
  const address = parseAddress(bare)
  return address && plain(address)
}

function isTrusted(address: Address, { trusted, trustsUnix }: AddressOptions): boolean {
  return address.length === 0 ? trustsUnix : trusted.some((range) => contains(range, address))
}

function clientText(address: Address, { ipv6Prefix }: AddressOptions): string {
  if (address.length === 0) return 'unix'
  return address.length === 4 || ipv6Prefix === 128 ? addressText(address) : rangeText(address, ipv6Prefix)
}

function rangeText(address: Address, bits: number): string {
  const base = address.map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - 8 * i))))
  return `${addressText(base)}/${bits}`
}

/** Unmaps an IPv4-mapped address, which a dual-stack socket reports for an IPv4 client. */
export function plain(address: Uint8Array): Address {
  const isMapped = address.length === 16 && address.every((byte, i) => i > 11 || byte === (i > 9 ? 255 : 0))
  return isMapped ? address.slice(12) : address
}
