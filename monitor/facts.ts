/**
 * Types shared by the monitor: a probe, what a full probe observes, a site. Names on the wire are in sections 2 and 6 of the
 * specification.
 *
 *     Probe (one site, one vantage, one time) ─► buckets per hour and day ─► score, tier, boards, region states
 */

export type Region = 'cn' | 'overseas'
export type Outcome = 'up' | 'degraded' | 'down' | 'inconclusive' // inconclusive: the vantage's own network failed; never counted
export type Tier = 'S' | 'A' | 'B' | 'C' | 'D'
export type BucketStatus = 'up' | 'degraded' | 'down'

/** Spec 6.3. Clients of the API must expect further values. */
export const ERROR_CODES = [
  'dns_nxdomain',
  'dns_timeout',
  'dns_error',
  'dns_bogus',
  'connect_timeout',
  'connect_refused',
  'connect_reset',
  'connect_unreachable',
  'tls_timeout',
  'tls_reset',
  'tls_protocol',
  'tls_untrusted',
  'tls_name_mismatch',
  'tls_expired',
  'http_timeout',
  'http_reset',
  'http_429',
  'http_4xx',
  'http_5xx',
  'redirect_loop',
  'redirect_refused',
  'challenge',
  'not_api',
  'body_invalid',
  'too_large',
  'parked',
  'slow',
  'target_not_allowed',
] as const
export type ErrorCode = (typeof ERROR_CODES)[number]

/** Whole milliseconds; null = not measured, for example on a reused connection. */
export interface Timings {
  dnsMs: number | null
  connectMs: number | null
  tlsMs: number | null
  ttfbMs: number | null
  totalMs: number | null
}

/** One finished probe of one site from one vantage, light or full. */
export interface Probe {
  atSec: number // epoch second of its end
  kind: 'light' | 'full'
  outcome: Outcome
  error: ErrorCode | null // null exactly when it is up
  httpStatus: number | null // of the last hop
  timings: Timings
  address?: string | null // connected to, or last tried; null = none, behind EGRESS_PROXY, or not kept. Never shown
}

/** How a models listing answers without a key (spec 6.2). */
export type ListingAuth = 'open' | 'key_required' | 'absent'

/** What a full probe observes in addition. Texts are parsed and bounded; bodies are not kept. */
export interface Observation {
  atSec: number
  models: string[] | null // ids of the listing, at most 5,000 of 1 to 128 characters; null = no listing
  listing: ListingAuth
  claimed: string[] // from pricing and the like
  profile: NetworkFacts
  hygiene: Hygiene
  isParked: boolean
  notices?: SiteNotices // stored, not shown; absent in older observations
}

export interface NetworkFacts {
  cdn: { provider: string | null; evidence: string[] }
  asn: { number: number | null; name: string | null; country: string | null }
  ips: string[] // at most 8
  hasIpv6: boolean
  tls: Certificate | null // null = plain http, or no handshake
  software: { name: string; version: string | null; confidence: number }
}

export interface Certificate {
  version: string // of TLS: `TLSv1.3`
  issuer: string
  notAfterSec: number
  isValid: boolean // chain and name
  alpn: string | null
}

/** Spec 7.2, each part known or null. */
export interface Hygiene {
  redirectsToHttps: boolean | null // or port 80 is closed
  hasHsts: boolean | null
  leaksUpstream: boolean | null // an error body names an upstream host or a key
}

/** What a site reports of itself (spec 6.2), each part known or null. */
export interface SiteNotices {
  systemName: string | null
  startTimeSec: number | null // epoch; a later one is a restart
  hasTopUp: boolean | null
}

export interface RegionState {
  state: 'reachable' | 'unreachable' | 'unknown'
  blocking: 'none' | 'dns' | 'tcp' | 'tls' | 'http' | 'unknown'
  vantages: number // online now
  agreeing: number
  checkedAtSec: number | null
}

/** A site of the catalogue (spec 8.1). */
export interface CatalogueSite {
  slug: string
  name: string
  url: string
  apiBase: string
  firstSeen: string | null // YYYY-MM-DD; null = the day of its first load
  modelsClaimed: string[]
  keyFile: string | null
  aliases: string[]
  regions: Region[]
  intervalSec: number | null // null = PROBE_INTERVAL_S
  hasScreenshot: boolean
  flags: SiteFlag[]
  isHidden: boolean
}
export type SiteFlag = 'scam' | 'closed' | 'phishing'
