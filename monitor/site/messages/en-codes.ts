/** What the codes of the API mean, in English: states, causes, caps, reasons. */
import type { ErrorCode, Region, RegionState } from '../../facts.ts'
import type { Notice } from '../../probe/detect.ts'
import type { BlackReason, RedReason } from '../../scoring/boards.ts'
import type { ComponentKey } from '../../scoring/score.ts'
import type { CapCode } from '../../scoring/tier.ts'

type Codes<Code extends string> = Record<Code, string>

const status: Codes<'up' | 'degraded' | 'down'> = { up: 'Up', degraded: 'Degraded', down: 'Down' }

const region: Codes<RegionState['state']> = {
  reachable: 'Reachable',
  unreachable: 'Unreachable',
  unknown: 'Not measured',
}

const blocking: Codes<RegionState['blocking']> = {
  none: '',
  dns: 'Blocked at DNS, likely.',
  tcp: 'Blocked at connecting, likely.',
  tls: 'Cut during TLS, likely.',
  http: 'Blocked by its response, likely.',
  unknown: 'The kind of failure is not known.',
}

const errors: Codes<ErrorCode> = {
  dns_nxdomain: 'Name does not exist',
  dns_timeout: 'DNS did not answer',
  dns_error: 'DNS error',
  dns_bogus: 'DNS gave a false address',
  connect_timeout: 'Connecting timed out',
  connect_refused: 'Connection refused',
  connect_reset: 'Connection reset',
  connect_unreachable: 'Network unreachable',
  tls_timeout: 'TLS handshake timed out',
  tls_reset: 'Reset during the TLS handshake',
  tls_protocol: 'TLS protocol error',
  tls_untrusted: 'Certificate not trusted',
  tls_name_mismatch: 'Certificate for another name',
  tls_expired: 'Certificate expired',
  http_timeout: 'No response in time',
  http_reset: 'Reset during the response',
  http_429: 'Too many requests (HTTP 429)',
  http_4xx: 'Client error (HTTP 4xx)',
  http_5xx: 'Server error (HTTP 5xx)',
  redirect_loop: 'Redirect loop',
  redirect_refused: 'Redirect to a refused address',
  challenge: 'Browser challenge',
  not_api: 'Response is not of an API',
  body_invalid: 'Response not readable',
  too_large: 'Response too large',
  parked: 'Domain parked',
  slow: 'Slow: more than 3 s to the first byte',
  target_not_allowed: 'Address not public',
}

const caps: Codes<CapCode> = {
  provisional: 'Fewer than 200 probes or 72 hours of history: at most B',
  availability_7d_95: '7-day availability under 95%: at most B',
  availability_7d_90: '7-day availability under 90%: at most C',
  availability_7d_70: '7-day availability under 70%: D',
  certificate_invalid: 'Certificate invalid: at most C',
  down_72h: 'Down for 72 hours: D',
  flag: 'Flagged by the operator of this monitor: D',
}

const components: Codes<ComponentKey> = {
  availability: 'Availability',
  models: 'Models listed',
  latency: 'First byte',
  reachability: 'Reachability',
  hygiene: 'Hygiene',
}

const redReasons: Codes<RedReason> = {
  availability_999: 'Available 99.9% of 30 days or better',
  models_true: 'At least 95% of the claimed models are in its list',
  fast: 'Fast first byte',
  both_regions: 'Reachable from China and from overseas',
  long_history: 'Measured for at least 29 days',
  availability_970: 'Available 97% of 7 days or better',
}

const blackReasons: Codes<BlackReason> = {
  flag_scam: 'Flagged as a scam by the operator of this monitor, by hand',
  down_72h: 'Down for 72 hours',
  parked: 'The domain is parked',
  down_24h: 'Down for 24 hours',
  tier_d: 'Tier D: score below 45',
  tls_invalid: 'Certificate invalid',
  models_missing: 'Models that it claims are not in its list',
  availability_low: '7-day availability under 90%',
  availability_drop: '7-day availability fell by more than 10 points',
  unreachable_everywhere: 'Unreachable from every vantage',
}

const notices: Codes<Notice> = {
  cert_expires_soon: 'The certificate ends soon.',
  cert_invalid: 'The certificate is not valid.',
  challenge_page: 'A browser challenge was returned.',
  parked_page: 'The domain is parked.',
  http_only: 'The address is http: keys and prompts travel in clear.',
  rate_limited: 'The site limited the probe (HTTP 429).',
  slow: 'The first byte took more than 3 s.',
  leaks_upstream: 'An error names an upstream host or a key.',
  single_vantage: 'Measured from one vantage only.',
}

const from: Codes<Region> = { cn: 'From China', overseas: 'From overseas' }
const place: Codes<Region> = { cn: 'China', overseas: 'Overseas' }

export const codes = {
  status,
  region,
  blocking,
  errors,
  caps,
  components,
  notices,
  redReasons,
  blackReasons,
  from,
  place,
}
