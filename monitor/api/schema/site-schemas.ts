/** Sites, their probes and their networks, as JSON Schema (spec 2, 3.1, 3.2). */
import {
  boolean,
  count,
  date,
  durationMs,
  exactly,
  integer,
  link,
  list,
  type Members,
  map,
  nullable,
  open,
  ratio,
  ref,
  score,
  slug,
  text,
  timestamp,
} from './build.ts'
import type { Components, Schema } from './json-schema.ts'

export const POINTS_MAX = 721 // hours of 30 days, both ends included
export const MODELS_MAX = 10_000

/** The eight fields that the source contract gives every site. */
export const SITE: Members = {
  slug: slug('Identifier of the site in paths; never given to another site.'),
  name: text('Display name, plain text.', 'Example Relay', 80, { minLength: 1 }),
  tier: ref('Tier'),
  url: text(
    'Address of the site: scheme, host, and port and path where it has them.',
    'https://relay.example.com',
    2_048,
    {
      format: 'uri',
      minLength: 1,
    },
  ),
  first_seen: date('Day on which the site entered the catalogue, UTC.'),
  last_probed: timestamp('End of the newest finished probe from any vantage.'),
  reachable_cn: boolean(
    'True only if the site was measured reachable from China; false also means not measured.',
  ),
  reachable_overseas: boolean(
    'True only if the site was measured reachable from outside China; false also means not measured.',
  ),
}

export const availability7d = nullable(
  ratio('Availability of the last 7 days; null if nothing was measured.', 0.9987),
)
export const availability30d = nullable(
  ratio('Availability of the last 30 days; null if nothing was measured.', 0.9931),
)
export const p50Ms = durationMs(
  'Median time to the first byte of the last 7 days; null if the site was not reached.',
  230,
)
export const siteScore = score('Score of the site, with one decimal.', 85.3)

const CHECKED = 'End of the newest probe behind the state; up to 24 hours ago while no vantage is online.'
const checkedAt = nullable(timestamp(CHECKED))

const models = (description: string): Schema => {
  const items = text('Identifier of a model, as the site writes it.', 'gpt-5.4', 128, { minLength: 1 })
  return list(description, items, MODELS_MAX, { uniqueItems: true })
}

const probeCount = (what: string, example: number) => count(`Probes that were ${what}.`, 'probes', example)

export const SITE_SCHEMAS: Components = {
  Site: exactly(
    'A relay site. `summary` is there on request only.',
    { ...SITE, summary: ref('SiteSummary', 'Figures of the site; there only with `include=summary`.') },
    ['summary'],
  ),
  SiteSummary: open('Figures of a site for lists.', {
    score: siteScore,
    availability_7d: availability7d,
    availability_30d: availability30d,
    latency_p50_ms: p50Ms,
    status: ref(
      'Status',
      'Status of the site: the better one of the newest probes from China and from outside China.',
    ),
    software: text(
      'Relay software of the site; `unknown` if it was not recognised. More names may be added.',
      'new-api',
      64,
      { minLength: 1 },
    ),
    china_state: ref('Reachability', 'Whether vantages in China reach the site.'),
    china_checked_at: checkedAt,
    overseas_state: ref('Reachability', 'Whether vantages outside China reach the site.'),
    overseas_checked_at: checkedAt,
    days: list(
      'Availability of each of the last 30 days, oldest first; null for a day without a probe.',
      nullable(ratio('Availability of one day.', 0.9931)),
      30,
      { minItems: 30 },
    ),
  }),
  SiteList: exactly('One page of the sites that match.', {
    total: count('Sites that match the filters, on all pages.', 'sites', 17),
    sites: list('The sites of this page, in the order that was asked for.', ref('Site'), 200),
  }),
  SiteDetail: exactly('A site with its history, models and network.', {
    ...SITE,
    probe_history: list(
      'Measurements of the last 30 days, oldest first, as the parameter `history` asks. Periods without a probe are absent.',
      ref('ProbePoint'),
      POINTS_MAX,
    ),
    model_list_claimed: models('Models that the site advertises, sorted.'),
    model_list_verified: models('Models that the listing of the site returned, sorted.'),
    network_profile: ref('NetworkProfile'),
    screenshot_url: nullable(
      link(
        'Newest monthly screenshot of the site; null until there is one.',
        'https://monitor.example.org/media/screenshots/example-relay/2026-11.webp',
      ),
    ),
  }),
  ProbePoint: open('What the probes of one hour or day found, or a single probe.', {
    at: timestamp('Start of the hour or day; end of a single probe.', '2026-11-20T16:00:00Z'),
    window_s: {
      type: 'integer',
      description: 'Length of the period: 3600 for an hour, 86400 for a day, 0 for a single probe.',
      'x-unit': 'seconds',
      enum: [0, 3_600, 86_400],
      examples: [3_600],
    },
    status: ref('Status'),
    probes: integer(
      'Probes that count; those that failed by a fault of the vantage are left out.',
      'probes',
      [1, 1_000_000_000],
      12,
    ),
    up: probeCount('up', 11),
    degraded: probeCount('degraded', 1),
    down: probeCount('down', 0),
    availability: ratio('(up + 0.7 × degraded) / probes.', 0.975),
    http_status: nullable(
      integer(
        'Most frequent HTTP status of the final responses; null if there was no response.',
        'number',
        [100, 999],
        401,
      ),
    ),
    latency_ms: ref('Latency', 'Medians of the period; the timings of a single probe.'),
    errors: map(
      'How many probes had each error: code of kind `probe_error` → count. Empty if all were up.',
      integer('Probes with this error.', 'probes', [1, 1_000_000_000], 1),
      64,
      { http_429: 1 },
    ),
  }),
  Latency: open('Time of each phase; null for a phase that did not happen.', {
    dns: durationMs('Name resolution.', 4),
    connect: durationMs('TCP connection.', 38),
    tls: durationMs('TLS handshake.', 44),
    ttfb: durationMs('From the request to the first byte of the response.', 212),
    total: durationMs('From the start of the probe to its end.', 230),
  }),
  NetworkProfile: open('Where and how the site is served, by the newest full probe.', {
    cdn: ref('Cdn'),
    asn: ref('AutonomousSystem'),
    ips: list(
      'Addresses of the last resolution.',
      text('An IPv4 or IPv6 address.', '104.16.0.1', 45, { minLength: 2 }),
      8,
    ),
    ipv6: boolean('Whether the name has an IPv6 address.'),
    china: ref('RegionState', 'Seen from China.'),
    overseas: ref('RegionState', 'Seen from outside China.'),
    tls: nullable(ref('Certificate', 'The certificate; null for plain http, or if no handshake was seen.')),
    software: ref('Software'),
    observed_at: timestamp('End of the full probe that this comes from.', '2026-11-20T12:01:00Z'),
  }),
  Cdn: open('Content delivery network in front of the site.', {
    detected: boolean('Whether signs of a content delivery network were found.'),
    provider: nullable(
      text('Which one; null if none was recognised. More names may be added.', 'cloudflare', 64, {
        minLength: 1,
      }),
    ),
    evidence: list(
      'The signs.',
      text(
        'A sign: `header:` or `cname:` with its name, or `cidr` for an address of the provider.',
        'header:cf-ray',
        128,
      ),
      64,
    ),
  }),
  AutonomousSystem: open('Network that announces the address of the site.', {
    number: nullable(integer('Number of the autonomous system.', 'number', [0, 4_294_967_295], 13_335)),
    name: nullable(text('Name of the autonomous system.', 'CLOUDFLARENET', 128)),
    country: nullable(
      text('Country of the registration, ISO 3166-1 alpha-2.', 'US', 2, { pattern: '^[A-Z]{2}$' }),
    ),
  }),
  RegionState: open('Whether the vantages of one region reach the site.', {
    reachable: boolean('True exactly if `state` is `reachable`.'),
    state: ref('Reachability'),
    blocking: ref('Blocking'),
    vantages: integer('Vantages of the region that are online now.', 'vantages', [0, 10_000], 2),
    agreeing: integer(
      'Vantages that agree with `state`; 0 while it rests on absent ones.',
      'vantages',
      [0, 10_000],
      2,
    ),
    checked_at: checkedAt,
  }),
  Certificate: open('TLS certificate and handshake of the site.', {
    version: text('Version of TLS that was agreed on.', 'TLSv1.3', 16),
    issuer: text('Common name of the issuer.', 'WE1', 256),
    not_after: timestamp('Until when the certificate is valid.', '2027-01-30T00:00:00Z'),
    valid: boolean('Whether chain, name and dates of the certificate are valid.'),
    days_left: integer(
      'Whole days until `not_after`; negative after it.',
      'days',
      [-1_000_000, 1_000_000],
      70,
    ),
    alpn: nullable(text('Protocol agreed on by ALPN; null without.', 'h2', 32)),
  }),
  Software: open('Relay software that the site runs.', {
    name: text('Name; `unknown` if it was not recognised. More names may be added.', 'new-api', 64, {
      minLength: 1,
    }),
    version: nullable(text('Version that the site reports.', 'v1.0.0', 64)),
    confidence: ratio('How sure the recognition is.', 0.98),
  }),
}
