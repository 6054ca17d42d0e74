/**
 * The target key (spec 3.4): equal for two submissions of the same target.
 *
 *     https://A.Example.com:443/v1/models?x#y   ─► https://a.example.com
 *     http://relay.example.com:8080/sub/v1/     ─► http://relay.example.com:8080/sub
 *
 * Takes a URL that egress/url-policy.ts has parsed and allowed: case, IDNA, default port and final dot are normalized.
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

/** Second-level labels below which many countries register names: `co.uk`, `com.cn`, `ne.jp`. */
// biome-ignore format: a list
const COUNTRY_SUFFIXES = new Set([
  'ac', 'asn', 'co', 'com', 'ed', 'edu', 'firm', 'gen', 'go', 'gob', 'gov', 'govt', 'gr', 'id', 'idv', 'ind', 'info',
  'lg', 'ltd', 'me', 'mil', 'ne', 'net', 'nhs', 'nom', 'or', 'org', 'pe', 'plc', 'police', 're', 'sch', 'school', 'web',
])

/**
 * The registrable part of a name, approximately: its last two labels, or three below a suffix like `com.cn`. Without the
 * public suffix list: names wrongly grouped share 60 runs a day; names wrongly separated are still bounded per host.
 */
export function registrableDomain(host: string): string {
  if (host.startsWith('[') || /^[0-9.]+$/.test(host)) return host
  const labels = host.split('.')
  const [second = '', top = ''] = labels.slice(-2)
  const isCountrySuffix = top.length === 2 && COUNTRY_SUFFIXES.has(second)
  return labels.slice(isCountrySuffix ? -3 : -2).join('.')
}
