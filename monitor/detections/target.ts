/**
 * The target key (spec 3.4): what two submissions share when they mean the same place.
 *
 *     https://A.Example.com:443/v1/models?x#y   ─► https://a.example.com
 *     http://relay.example.com:8080/sub/v1/     ─► http://relay.example.com:8080/sub
 *
 * Takes a URL that was parsed and allowed (egress/url-policy.ts): case, IDNA, default port and final dot are settled.
 */
import { trimEndSlashes } from '../trim-slashes.ts'

const PATH_CHARS_MAX = 256
const LISTING_END = /\/v1(?:\/models)?\/?$/

export interface DetectionTarget {
  key: string
  host: string
}

export function detectionTarget(url: URL): DetectionTarget {
  const path = trimEndSlashes(url.pathname.replace(LISTING_END, '')).slice(0, PATH_CHARS_MAX)
  return { key: `${url.protocol}//${url.host}${path}`, host: url.hostname }
}

/** Below which names are registered under the domains of many countries: `co.uk`, `com.cn`, `ne.jp`. */
// biome-ignore format: a list
const COUNTRY_SUFFIXES = new Set([
  'ac', 'asn', 'co', 'com', 'ed', 'edu', 'firm', 'gen', 'go', 'gob', 'gov', 'govt', 'gr', 'id', 'idv', 'ind', 'info',
  'lg', 'ltd', 'me', 'mil', 'ne', 'net', 'nhs', 'nom', 'or', 'org', 'pe', 'plc', 'police', 're', 'sch', 'school', 'web',
])

/**
 * The part of a name that somebody registers: its last two labels, three below what looks like `com.cn` or `co.uk`.
 * No list of public suffixes: where this takes too much together, customers of one host share 60 runs a day; where too
 * little, the bound per host is left.
 */
export function registrableDomain(host: string): string {
  if (host.startsWith('[') || /^[0-9.]+$/.test(host)) return host
  const labels = host.split('.')
  const [second = '', top = ''] = labels.slice(-2)
  const isCountrySuffix = top.length === 2 && COUNTRY_SUFFIXES.has(second)
  return labels.slice(isCountrySuffix ? -3 : -2).join('.')
}
