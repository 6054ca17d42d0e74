/**
 * Static checks of a URL: scheme, port, form of the host, literal addresses, names that are never public, the
 * monitor's own name, the opt-out list (spec 5.1, 5.2; the static checks of 3.4). No DNS query is made.
 *
 *     checkUrl('http://0x7f.1/', policy)   { refusal: { code: 'target_not_allowed', reason: 'reserved' } }
 *     checkUrl('https://a.example.com/v1', policy)   { target: { url, host, port, … } }
 *
 * Only the parsed URL is checked, never the text: `URL` normalises every spelling of an address.
 */
import { parseAddress } from './address.ts'
import type { AddressDenial, AddressPolicy } from './address-policy.ts'
import { addressDenial } from './address-policy.ts'
import { LIMITS } from './limits.ts'

/** A URL that may be requested; its host must still be resolved unless `isLiteral`. */
export interface UrlTarget {
  url: URL // without user info, fragment and final dot
  host: string // name, or address without brackets
  port: number
  isTls: boolean
  isLiteral: boolean // host is an allowed address
}

/** `invalid_url`: an error of the caller (400); `target_not_allowed`: denied by policy (422). */
export interface Refusal {
  code: 'invalid_url' | 'target_not_allowed'
  reason: UrlReason | AddressDenial
}
export type UrlReason = 'form' | 'scheme' | 'user_info' | 'host' | 'port' | 'name' | 'own_name' | 'opted_out'

export interface UrlPolicy {
  ports: ReadonlySet<number> // PROBE_PORTS
  addresses: AddressPolicy
  ownNames: ReadonlySet<string> // hosts of PUBLIC_BASE_URL and EGRESS_PROXY
  optOut: ReadonlySet<string> // suffixes, lower case
}

const HOST_CHARS = 253
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/
// biome-ignore format: the list of spec 5.2
const NEVER_PUBLIC = [
  'localhost', 'local', 'internal', 'intranet', 'lan', 'home.arpa', 'in-addr.arpa', 'ip6.arpa', 'onion', 'test',
  'invalid', 'example', 'svc', 'cluster.local',
]

/** `extraPort`: the additional port a catalogue entry may name. */
export function checkUrl(
  text: string,
  policy: UrlPolicy,
  own: readonly string[],
  extraPort?: number,
): { target: UrlTarget } | { refusal: Refusal } {
  const bad = (reason: Refusal['reason']) => ({ refusal: { code: 'invalid_url', reason } }) as const
  const denied = (reason: Refusal['reason']) => ({ refusal: { code: 'target_not_allowed', reason } }) as const

  if (text.length === 0 || text.length > LIMITS.urlChars || !URL.canParse(text)) return bad('form')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return bad('scheme')
  if (url.username !== '' || url.password !== '') return bad('user_info')
  url.hash = ''

  const literal = toAddressLiteral(url.hostname)
  if (literal === null) {
    const name = url.hostname.replace(/\.$/, '')
    url.hostname = name
    if (!isHostName(name) || url.hostname !== name) return bad('host') // 127.0.0.1.. would be an address now
  }
  const isTls = url.protocol === 'https:'
  const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port)
  if (port === 0) return bad('port')
  if (!policy.ports.has(port) && port !== extraPort) return denied('port')

  const host = literal ?? url.hostname
  if (hasSuffix(host, policy.optOut)) return denied('opted_out')
  const reason = literal === null ? nameDenial(host, policy) : addressDenial(host, policy.addresses, own)
  if (reason !== null) return denied(reason)
  return { target: { url, host, port, isTls, isLiteral: literal !== null } }
}

/** Whether `host` or one of its parent domains is in `suffixes`. */
export function hasSuffix(host: string, suffixes: ReadonlySet<string>): boolean {
  for (let name = host; ; name = name.slice(name.indexOf('.') + 1)) {
    if (suffixes.has(name)) return true
    if (!name.includes('.')) return false
  }
}

/** `URL` normalises IPv4 to dotted form and IPv6 to brackets. A name never ends in a number. */
function toAddressLiteral(hostname: string): string | null {
  if (hostname.startsWith('[')) return hostname.slice(1, -1)
  return parseAddress(hostname) === null ? null : hostname
}

function isHostName(name: string): boolean {
  return name.length > 0 && name.length <= HOST_CHARS && name.split('.').every((label) => LABEL.test(label))
}

const neverPublic = new Set(NEVER_PUBLIC)

function nameDenial(name: string, policy: UrlPolicy): UrlReason | null {
  if (!name.includes('.') || hasSuffix(name, neverPublic)) return 'name'
  return policy.ownNames.has(name) ? 'own_name' : null
}
