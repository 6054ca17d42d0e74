/**
 * The target key (spec 3.4): equal for two submissions of the same target.
 *
 *     https://A.Example.com:443/v1/models?x#y   ─► https://a.example.com
 *     http://relay.example.com:8080/sub/v1/     ─► http://relay.example.com:8080/sub
 *
 * Takes a URL that egress/url-policy.ts has parsed and allowed: case, IDNA, default port and final dot are normalized.
 */
import { getDomain } from 'tldts'
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

// The private section counts: customers of `github.io` or `vercel.app` are separate, as customers of a registry are.
const SUFFIX_OPTIONS = { allowPrivateDomains: true, extractHostname: false, validateHostname: false }

/** The registrable domain by the public suffix list; the host itself if it is an address, a suffix or a single label. */
export function registrableDomain(host: string): string {
  return getDomain(host, SUFFIX_OPTIONS) ?? host
}
