/** English texts of the web site. The shape of this catalogue is the type of all others: tsc reports what is missing. */
import type { ErrorCode, Region, RegionState } from '../../facts.ts'
import type { BlackReason, RedReason } from '../../scoring/boards.ts'
import type { ComponentKey } from '../../scoring/score.ts'
import type { CapCode } from '../../scoring/tier.ts'
import type { Format } from '../format.ts'

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
  down_72h: 'No answer for 72 hours: D',
  flag: 'Flagged by the operator of this monitor: D',
}

const components: Codes<ComponentKey> = {
  availability: 'Availability',
  models: 'Models found',
  latency: 'First byte',
  reachability: 'Reachability',
  hygiene: 'Hygiene',
}

const redReasons: Codes<RedReason> = {
  availability_999: 'Available 99.9% of 30 days or better',
  models_true: 'Claimed models are in its list',
  fast: 'Fast first byte',
  both_regions: 'Reachable from China and from overseas',
  long_history: 'Measured for 30 days',
  availability_970: 'Available 97% of 7 days or better',
}

const blackReasons: Codes<BlackReason> = {
  flag_scam: 'Flagged as a scam by the operator of this monitor',
  down_72h: 'No answer for 72 hours',
  parked: 'The domain is parked',
  down_24h: 'No answer for 24 hours',
  tier_d: 'Tier D: score below 45',
  tls_invalid: 'Certificate invalid',
  models_missing: 'Models that it claims are not in its list',
  availability_low: '7-day availability under 90%',
  availability_drop: '7-day availability fell by more than 10 points',
  unreachable_everywhere: 'Unreachable from every vantage',
}

const from: Codes<Region> = { cn: 'From China', overseas: 'From overseas' }
const place: Codes<Region> = { cn: 'China', overseas: 'Overseas' }

export const en = {
  codes: { status, region, blocking, errors, caps, components, redReasons, blackReasons, from, place },
  frame: {
    title: 'Relay Monitor',
    description: 'Measurements of AI API relay sites: which answer now, how well, and from where.',
    skip: 'Skip to content',
    main: 'Main',
    sites: 'Sites',
    boards: 'Boards',
    detect: 'Detect',
    method: 'Method',
    api: 'API',
    theme: 'Theme',
    themes: { system: 'System theme', light: 'Light theme', dark: 'Dark theme' },
    scored: 'How sites are scored',
    probe: 'What the probe sends, opting out',
    changelog: 'Changelog',
    reference: 'API reference',
    mistake: 'Report a mistake',
    times: 'Times are UTC. Nothing paid, sponsored or self-reported enters a score.',
    dataTime: (time: string) => `Data of ${time}.`,
  },
  site: {
    tier: 'Tier',
    score: 'score',
    capped: 'capped',
    provisional: 'provisional',
    notMeasured: 'not measured',
    availability: 'Availability',
    firstByte: 'First byte',
    claimed: 'Claimed',
    listed: 'Listed',
    strip: (measured: number, lowest: string, day: string) =>
      `30 days: ${measured} measured, lowest ${lowest} on ${day}`,
    noStrip: '30 days: none measured',
  },
  list: {
    heading: 'Which relays answer now',
    lead: (f: Format, { up, degraded, down, from: seen, time }: ListLead) => {
      const all = up + degraded + down
      const are = (n: number) => f.plural(n, { one: '{n} is', other: '{n} are' })
      const sites = f.plural(all, { one: '{n} site', other: '{n} sites' })
      const verb = up === 1 ? 'is' : 'are'
      return `${f.number(up)} of ${sites} ${verb} up, ${are(degraded)} degraded, ${are(down)} down, seen from ${seen} at ${time} UTC.`
    },
    seenFrom: { cn: 'China', overseas: 'overseas', both: 'China and overseas', none: 'nowhere yet' },
    empty: 'No site is published yet. A site appears after its first probe.',
    matches: (f: Format, found: number, all: number) =>
      `${f.number(found)} of ${f.plural(all, { one: '{n} site matches', other: '{n} sites match' })}.`,
    filters: 'Filter and sort',
    filterSites: 'Filter sites',
    query: 'Name or host',
    tier: 'Tier',
    region: 'Reachable from',
    status: 'Status',
    software: 'Software',
    model: 'Model',
    sort: 'Sort by',
    any: 'Any',
    both: 'Both',
    apply: 'Apply',
    clear: 'Clear filters',
    sorts: {
      rank: 'Rank',
      availability: 'Availability',
      latency: 'First byte',
      name: 'Name',
      first_seen: 'Newest',
      last_probed: 'Last probe',
    },
    notMeasured: {
      cn: {
        title: 'China is not measured here.',
        text: 'No vantage in China is connected, so this page says nothing about reachability from there. “Not measured” never means “blocked”.',
      },
      overseas: {
        title: 'Only China is measured here.',
        text: 'No vantage overseas is connected, so this page says nothing about reachability from there. “Not measured” never means “blocked”.',
      },
    },
    howRegions: 'How regions are measured',
    counts: 'Sites by tier',
    sites: (f: Format, n: number) => f.plural(n, { one: '{n} site', other: '{n} sites' }),
    tierCount: (tier: string, n: number) => `Tier ${tier}: ${n}`,
    key: 'Key to the strips',
    keyUp: 'available',
    keyLost: 'lost: taller is more',
    keyDown: 'down most of the day',
    keyNone: 'not measured',
    table: 'Relay sites',
    columns: {
      tier: 'Tier',
      score: ', score',
      site: 'Site',
      now: 'Now',
      days: '30 days',
      to: ' to ',
      available: 'Available 30 d',
      firstByte: 'First byte',
      last: 'Last probe',
      shortDays: '30 days',
    },
    sevenDays: '7 d',
    daysOnly: (f: Format, n: number) => f.plural(n, { one: '{n} day only', other: '{n} days only' }),
    pages: 'Pages',
    range: (f: Format, first: number, last: number, all: number) =>
      `${f.number(first)} to ${f.number(last)} of ${f.number(all)}`,
    previous: 'Previous',
    next: 'Next',
    noMatch: 'No site matches.',
    noMatchText: 'Try fewer filters, or another spelling of the model.',
    noRegion: (f: Format, where: string, all: number) =>
      `Reachability from ${where} is measured for none of the ${f.plural(all, { one: '{n} site', other: '{n} sites' })}.`,
  },
  errors: {
    notFound: 'There is no page at this address',
    noSite:
      'No site is listed under this address. It may have another short name, or it was never in the catalogue.',
    noPage: 'The address may be mistyped, or the page has gone.',
    find: 'Find a site by name or host',
    findButton: 'Find',
    near: 'Perhaps you meant',
    allSites: 'All sites',
    detectOther: 'Detect a site that is not listed',
    tooMany: 'Too many requests.',
    tooManyText: (f: Format, limit: number, seconds: number) =>
      `Your address has used its ${f.number(limit)} pages of this minute. Try again in ${f.plural(seconds, { one: '{n} second', other: '{n} seconds' })}.`,
    internal: 'This page failed',
    internalText: (id: string) =>
      `The error is logged with the request id ${id}. Try again, or report the id.`,
    notReady: 'The data is not loaded yet',
    notReadyText: 'The monitor has just started. Try again in a few seconds.',
    badFilter: 'A filter has a value that does not exist',
    method: 'This page can only be read',
  },
}

export interface ListLead {
  up: number
  degraded: number
  down: number
  from: string
  time: string
}

/** A catalogue in any language: the same keys; functions take the same values. */
export type Messages = Shape<typeof en>
type Shape<T> = T extends string
  ? string
  : T extends (...args: never[]) => string
    ? T
    : { [K in keyof T]: Shape<T[K]> }
