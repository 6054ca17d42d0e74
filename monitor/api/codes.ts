/**
 * Every code that the API can return, with its meaning and what to do (`GET /codes`). A code is defined where it arises; the
 * types here are of those places, so a code without a row does not compile.
 *
 *     kind              where it appears                           defined in
 *     error             `code` of an error body                    api/errors.ts
 *     detection_error   `error.code` of a failed detection         detections/detection.ts
 *     probe_error       `errors` of a probe point, `cause`         facts.ts
 *     cap               `caps` of a score                          scoring/tier.ts
 *     red_reason        `reasons` of the red board                 scoring/boards.ts
 *     black_reason      `reasons` of the black board               scoring/boards.ts
 *     notice            `notices` of a detection's result          probe/detect.ts
 *     blocking          `blocking` of a region state               facts.ts
 *     verdict           `verdict` of a detection's result          probe/detect.ts
 *     component         `key` of a score's component               scoring/score.ts
 *     quota_class       `class` of a quota, name in `RateLimit`    api/quota.ts
 */
import type { FailureCode } from '../detections/detection.ts'
import type { ErrorCode, RegionState } from '../facts.ts'
import type { Notice, Verdict } from '../probe/detect.ts'
import type { BlackReason, RedReason } from '../scoring/boards.ts'
import type { ComponentKey } from '../scoring/score.ts'
import type { CapCode } from '../scoring/tier.ts'
import { type ApiErrorCode, ERROR_STATUS } from './errors.ts'
import type { QuotaClass } from './quota.ts'

type Row = readonly [meaning: string, action: string]
type Table<Code extends string> = Readonly<Record<Code, Row>>

const ERRORS: Table<ApiErrorCode> = {
  invalid_parameter: [
    'A query parameter is unknown, repeated, empty, of the wrong type or out of range.',
    'Correct the parameter that `error` names; the reference has the range of each.',
  ],
  invalid_request: [
    'The body is not JSON in UTF-8, not an object, or has a wrong or unknown member.',
    'Send exactly the members of the request schema.',
  ],
  invalid_url: [
    'The member `url` is not an absolute http or https URL of at most 2,048 characters without user information.',
    'Send the address as a browser shows it, with its scheme.',
  ],
  invalid_api_key: [
    'The API key is unknown, revoked or expired, or two different keys were sent.',
    'Send one valid key, or none: every endpoint can be read without a key.',
  ],
  not_found: ['No endpoint has this path.', 'Take a path from the index at `/api/v1`.'],
  unknown_version: ['This version of the API is not served.', 'Use `/api/v1`.'],
  site_not_found: [
    'No published site has this slug: it is unknown, hidden, or not probed yet.',
    'Take the slug from `/api/v1/sites`.',
  ],
  detection_not_found: [
    'No detection has this identifier.',
    'Use the identifier or the `Location` of the submission.',
  ],
  method_not_allowed: ['The path does not support this method.', 'Use one that the header `Allow` lists.'],
  request_timeout: [
    'The body was not received completely within 8 seconds.',
    'Send the request again on a new connection.',
  ],
  detection_expired: [
    'The detection is older than the 7 days for which it is kept.',
    'Submit the URL again.',
  ],
  version_retired: [
    'This version of the API is past its sunset.',
    'Move to the version that the header `Link` names as `successor-version`.',
  ],
  payload_too_large: ['The body has more than 4,096 bytes.', 'Send only the members of the request schema.'],
  unsupported_media_type: [
    'The media type of the body is not `application/json`.',
    'Send `Content-Type: application/json`.',
  ],
  target_not_allowed: [
    'The address may not be probed: it is not public, its port is not allowed, its owner has opted out, or it is this service.',
    'Submit a public address; do not repeat the request unchanged.',
  ],
  rate_limited: [
    'The quota of this client is used up, or too many wrong API keys came from its address.',
    'Wait for the seconds in `Retry-After`; the contact in `/api/v1/meta`, if there is one, issues keys with a higher quota.',
  ],
  too_many_pending: [
    'This client already has 2 unfinished detections.',
    'Wait until one of them is done, then submit again.',
  ],
  target_cooldown: [
    'The host, or its domain, was probed too often, and no earlier result can be returned.',
    'Wait for the seconds in `Retry-After`.',
  ],
  internal_error: [
    'An unforeseen failure of this service; the log has it under the `X-Request-Id` of the response.',
    'Try again later, with growing pauses; report the request id if it stays.',
  ],
  queue_full: ['The queue of detections is full.', 'Wait for the seconds in `Retry-After`.'],
  detections_disabled: [
    'The operator has switched detections off.',
    'Do not retry soon; what was measured so far can still be read.',
  ],
  not_ready: [
    'The data is not loaded yet, the quota cannot be determined, or the service is shutting down.',
    'Wait for the seconds in `Retry-After`.',
  ],
}

const DETECTION_ERRORS: Table<FailureCode> = {
  target_not_allowed: [
    'The name resolved to an address that is not public.',
    'Make the name resolve to public addresses only, or submit another URL.',
  ],
  queue_timeout: ['The detection was queued for too long.', 'Submit the URL again.'],
  deadline_exceeded: ['The probe did not end within 45 seconds.', 'Submit the URL again later.'],
  internal_error: ['An unforeseen failure of this service.', 'Submit the URL again later.'],
}

const SITE_OPERATOR_CHECKS = 'No action for API clients. The operator of the site should check'

const PROBE_ERRORS: Table<ErrorCode> = {
  dns_nxdomain: ['The name does not exist.', `${SITE_OPERATOR_CHECKS} the registration of the domain.`],
  dns_timeout: ['No name server answered in time.', `${SITE_OPERATOR_CHECKS} the name servers.`],
  dns_error: [
    'The name servers answered with an error or without an address.',
    `${SITE_OPERATOR_CHECKS} the zone.`,
  ],
  dns_bogus: [
    'The resolver returned an address that is known to be false, which is typical of blocking.',
    'Compare the states of both regions.',
  ],
  connect_timeout: [
    'The TCP connection was not accepted in time.',
    `${SITE_OPERATOR_CHECKS} firewall and load.`,
  ],
  connect_refused: [
    'The address refused the TCP connection.',
    `${SITE_OPERATOR_CHECKS} that the server listens.`,
  ],
  connect_reset: [
    'The connection was reset while it was established.',
    'Compare the states of both regions: this may be blocking.',
  ],
  connect_unreachable: ['No route leads to the address.', `${SITE_OPERATOR_CHECKS} the routing.`],
  tls_timeout: ['The TLS handshake did not end in time.', `${SITE_OPERATOR_CHECKS} the load of the server.`],
  tls_reset: [
    'The connection was reset during the TLS handshake.',
    'Compare the states of both regions: this may be blocking.',
  ],
  tls_protocol: [
    'The TLS handshake failed for a reason other than the certificate.',
    `${SITE_OPERATOR_CHECKS} versions and ciphers.`,
  ],
  tls_untrusted: [
    'The certificate chain does not lead to a trusted root.',
    `${SITE_OPERATOR_CHECKS} the chain, with its intermediates.`,
  ],
  tls_name_mismatch: [
    'The certificate is for another name.',
    `${SITE_OPERATOR_CHECKS} the names in the certificate.`,
  ],
  tls_expired: ['The certificate has expired.', `${SITE_OPERATOR_CHECKS} its renewal.`],
  http_timeout: ['The response did not come in time.', `${SITE_OPERATOR_CHECKS} the load of the server.`],
  http_reset: [
    'The connection was closed before the response was complete.',
    `${SITE_OPERATOR_CHECKS} proxies in between.`,
  ],
  http_429: ['The site limited the probe with status 429.', 'Counted as degraded, not as down.'],
  http_4xx: [
    'The site answered with a client error other than those a missing key explains.',
    `${SITE_OPERATOR_CHECKS} the path of the API.`,
  ],
  http_5xx: ['The site answered with a server error.', `${SITE_OPERATOR_CHECKS} the log of the server.`],
  redirect_loop: ['The redirects did not end.', `${SITE_OPERATOR_CHECKS} the redirects.`],
  redirect_refused: [
    'A redirect leads to an address that may not be probed.',
    `${SITE_OPERATOR_CHECKS} the target of the redirect.`,
  ],
  challenge: [
    'A challenge for browsers came instead of the API.',
    'API clients are likely to meet the same challenge.',
  ],
  not_api: [
    'The response is not that of an API.',
    `${SITE_OPERATOR_CHECKS} the address that is listed here.`,
  ],
  body_invalid: [
    'The body of the response could not be read.',
    `${SITE_OPERATOR_CHECKS} the encoding of responses.`,
  ],
  too_large: [
    'The response was larger than the probe reads.',
    `${SITE_OPERATOR_CHECKS} the size of the response.`,
  ],
  parked: ['The domain shows the page of a domain trader.', 'Do not send keys to this domain.'],
  slow: [
    'The first byte came later than the bound for slow responses, 3 seconds unless the operator set another.',
    'Counted as degraded, not as down.',
  ],
  target_not_allowed: [
    'The name resolves to an address that is not public.',
    `${SITE_OPERATOR_CHECKS} the records of the name.`,
  ],
}

const CAP_ACTION = 'The cap ends with its cause; `/api/v1/sites/{slug}/history` shows the measurements.'

const CAPS: Table<CapCode> = {
  provisional: [
    'The site has fewer than 200 probes or less than 72 hours of history: tier B at best.',
    'Wait until there is enough history.',
  ],
  availability_7d_95: ['The availability of 7 days is below 0.95: tier B at best.', CAP_ACTION],
  availability_7d_90: ['The availability of 7 days is below 0.90: tier C at best.', CAP_ACTION],
  availability_7d_70: ['The availability of 7 days is below 0.70: tier D.', CAP_ACTION],
  certificate_invalid: [
    'The certificate is not valid now: tier C at best.',
    'The cap ends with the next probe that finds a valid certificate.',
  ],
  down_72h: [
    'No probe of the last 72 hours was up or degraded: tier D.',
    'The cap ends with the first probe that is up or degraded.',
  ],
  flag: [
    'The operator of this monitor has flagged the site as a scam, as phishing or as closed: tier D.',
    'Write to the contact in `/api/v1/meta` if this is a mistake.',
  ],
}

const RED_REASONS: Table<RedReason> = {
  availability_999: [
    'The availability of 30 days is at least 0.999.',
    'See `availability_30d` of the entry.',
  ],
  models_true: [
    'At least 95 % of the models that the site claims are in its listing.',
    'See `/api/v1/sites/{slug}/models`.',
  ],
  fast: [
    'The time to the first byte is short: its part of the score is at least 0.8, such as 475 ms at the median and 1.5 s at p95.',
    'See `latency_p50_ms` of the entry.',
  ],
  both_regions: [
    'The site is reachable from China and from overseas.',
    'See `reachable_cn` and `reachable_overseas`.',
  ],
  long_history: ['The site has been measured for 29 days or more.', 'See `first_seen` of the entry.'],
  availability_970: [
    'The availability of 7 days is at least 0.97; no other strength applies.',
    'See `availability_7d` of the entry.',
  ],
}

const EVIDENCE =
  'The evidence is at `evidence_url` of the entry; `appeal_url`, if there is one, is the place to report a mistake.'

const BLACK_REASONS: Table<BlackReason> = {
  flag_scam: ['The operator of this monitor has flagged the site as a scam.', EVIDENCE],
  down_72h: ['No probe of the last 72 hours was up or degraded.', EVIDENCE],
  parked: ['The domain shows the page of a domain trader.', EVIDENCE],
  down_24h: ['No probe of the last 24 hours was up or degraded.', EVIDENCE],
  tier_d: ['The site is in tier D.', EVIDENCE],
  tls_invalid: ['The certificate is not valid.', EVIDENCE],
  models_missing: ['Fewer than 70 % of at least 5 models that the site claims are in its listing.', EVIDENCE],
  availability_low: ['The availability of 7 days is below 0.90.', EVIDENCE],
  availability_drop: ['The availability of 7 days is more than 0.10 below that of 30 days.', EVIDENCE],
  unreachable_everywhere: ['No region that was measured reaches the site.', EVIDENCE],
}

const NOTICES: Table<Notice> = {
  cert_expires_soon: [
    'The certificate is valid for 14 days at most.',
    'The operator of the site should renew the certificate.',
  ],
  cert_invalid: ['The certificate is not valid.', 'Do not send keys to this site.'],
  challenge_page: [
    'A challenge for browsers was returned.',
    'API clients are likely to meet the same challenge.',
  ],
  parked_page: ['The domain shows the page of a domain trader.', 'Do not send keys to this domain.'],
  http_only: [
    'The address is http and does not redirect to https: keys and prompts travel in clear.',
    'Use an https address, if the site has one.',
  ],
  rate_limited: ['The site limited the probe with status 429.', 'Submit again later for a full result.'],
  slow: [
    'The first byte came later than the bound for slow responses.',
    'Submit again later to see whether it stays.',
  ],
  leaks_upstream: [
    'The body of an error names an upstream host or a key.',
    'The operator of the site should hide upstream errors.',
  ],
  single_vantage: [
    'Only one vantage was online, so no second one confirms the result.',
    'Read the finding as that of one place.',
  ],
}

const REGIONS = 'Compare with the other region; a site that fails everywhere is down, not blocked.'

const BLOCKING: Table<RegionState['blocking']> = {
  none: ['No sign of blocking: the region reaches the site, or no region does.', 'Nothing to do.'],
  dns: ['Name resolution fails or is falsified in this region.', REGIONS],
  tcp: ['TCP connections fail in this region.', REGIONS],
  tls: ['TLS handshakes are cut in this region.', REGIONS],
  http: ['Responses in this region are not those of the site.', REGIONS],
  unknown: ['The site is not reached, and the kind of failure is not known.', REGIONS],
}

const VERDICTS: Table<Verdict> = {
  relay: ['The target is a relay site: known relay software answered.', 'See `models` and `notices`.'],
  compatible_api: [
    'The target has an API of the expected form, but no known relay software was recognised.',
    'See `models` and `listing_auth`.',
  ],
  not_relay: ['The target answered, but has no such API.', 'Submit the base address of the API.'],
  blocked: [
    'The target refused the probe, by a challenge or by status 429.',
    'The finding says nothing about clients with a key.',
  ],
  unreachable: ['The target did not answer.', 'See `errors` of the `probe`.'],
}

const COMPONENTS: Table<ComponentKey> = {
  availability: [
    'Availability of 24 hours, 7 days and 30 days.',
    'Inputs `a24h`, `a7d` and `a30d` are ratios.',
  ],
  models: [
    'Share of the claimed models that are in the listing of the site.',
    'Input `truth_ratio` is a ratio.',
  ],
  latency: ['Time to the first byte over 7 days.', 'Inputs `p50_ms` and `p95_ms` are milliseconds.'],
  reachability: ['Share of the measured regions that reach the site.', 'Input `reachability` is a ratio.'],
  hygiene: [
    'Certificate, redirect to https, TLS 1.3, HSTS, and error bodies without upstream details.',
    'Input `hygiene` is a ratio.',
  ],
}

const QUOTAS = '`/api/v1/limits` shows the quota without using it.'

const QUOTA_CLASSES: Table<QuotaClass> = {
  read: ['Requests that read, counted by address.', QUOTAS],
  submit: ['Submissions of detections, counted by address.', QUOTAS],
  page: ['Pages of the web site, counted by address.', QUOTAS],
  key_read: ['Requests that read, counted by API key.', QUOTAS],
  key_submit: ['Submissions of detections, counted by API key.', QUOTAS],
  wrong_key: [
    'Wrong API keys, counted by address: 20 in 10 minutes.',
    'Send requests without a key, or wait for the seconds in `Retry-After`.',
  ],
}

const TABLES = {
  error: ERRORS,
  detection_error: DETECTION_ERRORS,
  probe_error: PROBE_ERRORS,
  cap: CAPS,
  red_reason: RED_REASONS,
  black_reason: BLACK_REASONS,
  notice: NOTICES,
  blocking: BLOCKING,
  verdict: VERDICTS,
  component: COMPONENTS,
  quota_class: QUOTA_CLASSES,
} satisfies Record<string, Table<string>>

export type CodeKind = keyof typeof TABLES

export const CODE_KINDS = Object.keys(TABLES) as readonly CodeKind[]

export interface CodeEntry {
  kind: CodeKind
  code: string // unique within its kind
  http_status: number | null // of errors
  meaning: string
  action: string
}

export const listCodes = (kind: CodeKind): readonly string[] => Object.keys(TABLES[kind])

/** All codes, by kind, in the order of their definition. */
export const CODES: readonly CodeEntry[] = CODE_KINDS.flatMap((kind) =>
  Object.entries<Row>(TABLES[kind]).map(([code, [meaning, action]]) => ({
    kind,
    code,
    http_status: kind === 'error' ? ERROR_STATUS[code as ApiErrorCode] : null,
    meaning,
    action,
  })),
)
