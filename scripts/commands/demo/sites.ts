/**
 * The invented sites of the demo: what each looks like from outside now, and how its last 30 days went. Hosts are below the
 * domains reserved for documentation (RFC 2606), which no DNS server resolves to a real site.
 *
 *     rttMs, serverMs    round trip from each region, and the site's own time to the first byte
 *     upShare            share of probes that find it up, outside incidents; at least 0.85
 *     now                how its relay (relays.ts) responds from the start of the demo
 *     incidents          in hours before now; `toHours` 0 = still going on, as `now` must then agree
 *     modelChanges       in hours before now; before them, `listed` was without `added` and with `removed`
 */
import type { ErrorCode, Region, SiteFlag } from '../../../monitor/facts.ts'
import { DAY_SEC } from '../../../monitor/scoring/bucket.ts'
import type { RelayKind } from '../../../test/helpers/fake-relays.ts'

export interface DemoIncident {
  fromHours: number
  toHours: number
  error: ErrorCode // `slow` and `challenge` degrade, all others are down
  region?: Region // default both
}

export interface DemoSite {
  slug: string
  name: string
  host: string
  line: string // on its landing page
  colour: string // of its landing page
  relay: RelayKind // whose program answers, except landing page, models and prices
  scheme: 'https' | 'http'
  rttMs: Record<Region, number>
  serverMs: number
  upShare: number
  errors: readonly ErrorCode[] // of failing probes, at random
  listed: readonly string[] | null // by its listing; null = it requires a key
  claimed: readonly string[] // by its price list or, without one, by the catalogue
  firstSeenDays: number // ago, in the catalogue
  historyDays?: number // whole UTC days before today; default: all
  now?: 'flapping' | 'slow' | 'challenge' | 'expired' | 'failing' | 'parked' // default: well
  blockedInCn?: { hours: number; layer: 'dns' | 'tls' }
  incidents?: readonly DemoIncident[]
  outagesPerWeek?: number // short incidents at random
  peak?: { failing: number; factor: number } // 19:00 to 23:00 UTC+8: further share that fails, latency
  modelChanges?: readonly { hours: number; added?: readonly string[]; removed?: readonly string[] }[]
  flags?: readonly SiteFlag[]
  isBehindCdn?: boolean
}

const OPENAI = ['gpt-5.4', 'gpt-5.4-mini', 'gpt-5', 'gpt-4.1', 'gpt-4o', 'o4-mini']
const ANTHROPIC = ['claude-opus-4-6', 'claude-sonnet-4-6', 'claude-haiku-4-5']
const GOOGLE = ['gemini-3-pro', 'gemini-3-flash', 'gemini-2.5-pro']
const CHINESE = ['deepseek-v3.2', 'deepseek-r1', 'qwen3-max', 'kimi-k2', 'glm-4.6', 'doubao-seed-1.6']
const OPEN = ['llama-4-maverick', 'mistral-large-latest', 'gpt-oss-120b']
const ALL = [...OPENAI, ...ANTHROPIC, ...GOOGLE, ...CHINESE, ...OPEN]
const NOT_LISTED = [
  ...['gpt-6', 'gpt-6-pro', 'gpt-5.4-unlimited', 'claude-opus-5', 'claude-sonnet-5', 'gemini-4-ultra'],
  ...['grok-6', 'llama-5-behemoth', 'deepseek-r3', 'qwen4-max', 'o7-pro', 'sora-3'],
]

// biome-ignore format: two or three lines of equal kind per site
export const DEMO_SITES: readonly DemoSite[] = [
  {
    slug: 'aurora', name: 'Aurora API', host: 'api.aurora.example.com', line: 'One key, every frontier model.',
    colour: '#0f766e', relay: 'new-api', scheme: 'https', rttMs: { overseas: 32, cn: 158 }, serverMs: 140,
    upShare: 0.99985, errors: ['http_5xx', 'connect_timeout'], listed: ALL, claimed: ALL, firstSeenDays: 412, isBehindCdn: true,
    modelChanges: [{ hours: 530, added: ['gpt-5.4', 'gpt-5.4-mini'] }, { hours: 200, added: ['claude-opus-4-6'], removed: ['gpt-4-turbo'] }],
  },
  {
    slug: 'orchid', name: 'Orchid Link', host: 'orchid.example.net', line: 'Hosted in Hong Kong. Fast from both sides.',
    colour: '#9d174d', relay: 'new-api', scheme: 'https', rttMs: { overseas: 96, cn: 41 }, serverMs: 120,
    upShare: 0.9998, errors: ['http_5xx', 'http_timeout'], listed: [...OPENAI, ...ANTHROPIC, ...CHINESE], claimed: [...OPENAI, ...ANTHROPIC, ...CHINESE],
    firstSeenDays: 7, historyDays: 7, modelChanges: [{ hours: 60, added: ['kimi-k2', 'glm-4.6'] }],
  },
  {
    slug: 'harbor', name: 'Harbor Gateway', host: 'harbor.example.org', line: 'A calm place for your tokens.',
    colour: '#1d4ed8', relay: 'sub2api', scheme: 'https', rttMs: { overseas: 44, cn: 176 }, serverMs: 210,
    upShare: 0.9994, errors: ['http_5xx', 'connect_reset', 'tls_timeout'], listed: [...OPENAI, ...GOOGLE], claimed: OPENAI, firstSeenDays: 233,
    incidents: [{ fromHours: 51, toHours: 49.5, error: 'http_5xx' }],
  },
  {
    slug: 'cobalt', name: 'Cobalt One', host: 'cobalt.example.com', line: 'Pay by token, never by month.',
    colour: '#3730a3', relay: 'one-api', scheme: 'https', rttMs: { overseas: 61, cn: 203 }, serverMs: 320,
    upShare: 0.9988, errors: ['connect_timeout', 'dns_timeout', 'http_5xx'], listed: null, claimed: [...OPENAI, ...CHINESE], firstSeenDays: 301,
    incidents: [{ fromHours: 744, toHours: 700, error: 'connect_timeout' }, { fromHours: 214, toHours: 211, error: 'dns_timeout' }],
  },
  {
    slug: 'bamboo', name: 'Bamboo Gateway', host: 'bamboo.example.net', line: 'Light, green, unmetered at night.',
    colour: '#15803d', relay: 'new-api', scheme: 'https', rttMs: { overseas: 38, cn: 149 }, serverMs: 180,
    upShare: 0.9985, errors: ['http_5xx', 'http_reset'], listed: [...ANTHROPIC, ...CHINESE], claimed: [...ANTHROPIC, ...CHINESE], firstSeenDays: 188,
    blockedInCn: { hours: 200, layer: 'dns' }, incidents: [{ fromHours: 400, toHours: 397, error: 'http_5xx' }],
  },
  {
    slug: 'nimbus', name: 'Nimbus Router', host: 'nimbus.example.org', line: 'Routes each prompt to the cheapest cloud.',
    colour: '#0369a1', relay: 'one-hub', scheme: 'https', rttMs: { overseas: 52, cn: 88 }, serverMs: 380,
    upShare: 0.9985, errors: ['http_timeout', 'http_5xx', 'connect_timeout'], listed: [...OPENAI, ...CHINESE], claimed: [...OPENAI, ...CHINESE, 'gpt-5.4-pro'],
    firstSeenDays: 141, peak: { failing: 0.09, factor: 2.6 },
  },
  {
    slug: 'pagoda', name: 'Pagoda AI', host: 'pagoda.example.com', line: 'Nine floors of models.',
    colour: '#b45309', relay: 'one-hub', scheme: 'https', rttMs: { overseas: 71, cn: 187 }, serverMs: 250,
    upShare: 0.997, errors: ['tls_timeout', 'http_5xx'], listed: [...GOOGLE, ...OPEN], claimed: [...GOOGLE, ...OPEN, 'gemini-3-ultra'], firstSeenDays: 96,
    blockedInCn: { hours: 70, layer: 'tls' },
  },
  {
    slug: 'delta', name: 'Delta Hub', host: 'delta.example.net', line: 'Plain HTTP, plain prices.',
    colour: '#4d7c0f', relay: 'litellm', scheme: 'http', rttMs: { overseas: 88, cn: 129 }, serverMs: 430,
    upShare: 0.994, errors: ['http_reset', 'connect_refused'], listed: [...OPENAI, ...OPEN], claimed: [...OPENAI, ...OPEN], firstSeenDays: 175,
    incidents: [{ fromHours: 90, toHours: 86, error: 'connect_refused' }],
  },
  {
    slug: 'ember', name: 'Ember Relay', host: 'ember.example.org', line: 'Burns bright, sometimes out.',
    colour: '#c2410c', relay: 'sub2api', scheme: 'https', rttMs: { overseas: 120, cn: 240 }, serverMs: 620,
    upShare: 0.95, outagesPerWeek: 6, errors: ['http_5xx', 'http_5xx', 'http_reset', 'connect_timeout'], listed: [...OPENAI, 'grok-4'], claimed: [...OPENAI, 'grok-4', 'grok-4-heavy'],
    firstSeenDays: 120, now: 'flapping', incidents: [{ fromHours: 300, toHours: 292, error: 'http_5xx' }],
  },
  {
    slug: 'fjord', name: 'Fjord Models', host: 'fjord.example.com', line: 'Deep and cold storage for your context.',
    colour: '#155e75', relay: 'veloera', scheme: 'https', rttMs: { overseas: 140, cn: 260 }, serverMs: 1_450,
    upShare: 0.985, outagesPerWeek: 0.7, errors: ['http_timeout', 'http_5xx'], listed: [...ANTHROPIC, ...GOOGLE], claimed: [...ANTHROPIC, ...GOOGLE], firstSeenDays: 82,
    now: 'slow', incidents: [{ fromHours: 9, toHours: 0, error: 'slow' }],
  },
  {
    slug: 'glacier', name: 'Glacier Shield', host: 'glacier.example.net', line: 'Behind seven walls.',
    colour: '#334155', relay: 'new-api', scheme: 'https', rttMs: { overseas: 29, cn: 171 }, serverMs: 130,
    upShare: 0.996, errors: ['http_4xx', 'http_5xx'], listed: [...OPENAI, ...ANTHROPIC], claimed: [...OPENAI, ...ANTHROPIC], firstSeenDays: 156,
    now: 'challenge', isBehindCdn: true, incidents: [{ fromHours: 26, toHours: 0, error: 'challenge' }],
  },
  {
    slug: 'lotus', name: 'Lotus', host: 'lotus.example.org', line: 'New here. First 10,000 tokens free.',
    colour: '#be185d', relay: 'new-api', scheme: 'https', rttMs: { overseas: 110, cn: 52 }, serverMs: 160,
    upShare: 0.9995, errors: ['http_5xx'], listed: [...CHINESE, 'gpt-5.4'], claimed: [...CHINESE, 'gpt-5.4'], firstSeenDays: 3, historyDays: 2,
  },
  {
    slug: 'mirage', name: 'Mirage Bargains', host: 'mirage.example.com', line: 'GPT-6 and Claude Opus 5 at 90 % off!',
    colour: '#a21caf', relay: 'new-api', scheme: 'https', rttMs: { overseas: 58, cn: 164 }, serverMs: 690,
    upShare: 0.986, outagesPerWeek: 0.5, errors: ['http_5xx', 'http_429'], listed: ['gpt-4o', 'gpt-4.1', 'deepseek-v3.2', 'llama-4-maverick'],
    claimed: [...NOT_LISTED, ...ANTHROPIC, 'gpt-5.4', 'gpt-4o', 'gpt-4.1', 'deepseek-v3.2'], firstSeenDays: 44,
    modelChanges: [{ hours: 610, removed: ['gpt-5.4', 'claude-sonnet-4-6'] }, { hours: 310, removed: ['gemini-3-pro', 'claude-haiku-4-5', 'gpt-5'] }],
  },
  {
    slug: 'iris', name: 'Iris Cloud', host: 'iris.example.net', line: 'See further with every model.',
    colour: '#6d28d9', relay: 'done-hub', scheme: 'https', rttMs: { overseas: 47, cn: 155 }, serverMs: 260,
    upShare: 0.997, errors: ['http_5xx', 'tls_protocol'], listed: [...GOOGLE, ...OPENAI], claimed: [...GOOGLE, ...OPENAI], firstSeenDays: 264,
    now: 'expired', incidents: [{ fromHours: 30, toHours: 0, error: 'tls_expired' }],
  },
  {
    slug: 'juniper', name: 'Juniper Proxy', host: 'juniper.example.org', line: 'This domain is for sale.',
    colour: '#57534e', relay: 'open', scheme: 'http', rttMs: { overseas: 95, cn: 190 }, serverMs: 300,
    upShare: 0.97, errors: ['http_5xx', 'dns_timeout'], listed: OPENAI, claimed: OPENAI, firstSeenDays: 350,
    now: 'parked', incidents: [{ fromHours: 140, toHours: 0, error: 'parked' }],
  },
  {
    slug: 'koi', name: 'Koi Relay', host: 'koi.example.com', line: 'Swims upstream for you.',
    colour: '#dc2626', relay: 'claude-relay-service', scheme: 'https', rttMs: { overseas: 66, cn: 143 }, serverMs: 290,
    upShare: 0.991, outagesPerWeek: 1, errors: ['http_5xx', 'connect_reset', 'tls_reset'], listed: ANTHROPIC, claimed: ANTHROPIC, firstSeenDays: 205,
    now: 'failing', incidents: [{ fromHours: 5, toHours: 0, error: 'http_5xx' }, { fromHours: 160, toHours: 158, error: 'tls_reset' }],
  },
  {
    slug: 'quartz', name: 'Quartz Token Outlet', host: 'quartz.example.net', line: 'Lifetime plans. No refunds.',
    colour: '#854d0e', relay: 'one-api', scheme: 'https', rttMs: { overseas: 75, cn: 168 }, serverMs: 510,
    upShare: 0.97, outagesPerWeek: 2, errors: ['http_5xx', 'http_429', 'tls_untrusted'], listed: null, claimed: [...OPENAI, ...ANTHROPIC], firstSeenDays: 60,
    flags: ['scam'],
  },
]

/** Hours before now without any measurement, as if the monitor had not run; in one region, as if its vantage had not. */
export const DEMO_GAPS: readonly { fromHours: number; toHours: number; region?: Region }[] = [
  { fromHours: 506, toHours: 496 },
  { fromHours: 226, toHours: 220 },
  { fromHours: 61, toHours: 58 },
  { fromHours: 330, toHours: 312, region: 'cn' },
]

/** The submitted relay whose detection is still running when the demo is up; not in the catalogue. Its replies take long. */
export const SLOW_SUBMISSION = { host: 'lagoon.example.org', replyMs: 5_000 } as const // four requests; a run may take 45 s

/** Of the time to the first byte of a site that is `slow` now, over its usual one. */
export const SLOW_FACTOR = 2.4

/** Addresses of the relays, in turn, and their networks in the demo's ASN_DB. */
export const DEMO_NETWORKS = [
  { address: '127.0.0.2', asn: 64_496, country: 'US', name: 'DEMO-CLOUD' }, // numbers reserved for documentation
  { address: '127.0.0.3', asn: 64_497, country: 'DE', name: 'DEMO-HOSTING' },
  { address: '127.0.0.4', asn: 64_498, country: 'SG', name: 'DEMO-EDGE' },
] as const

/** In the format of ip2asn-combined.tsv. */
export function demoAsnTable(): string {
  const rows = DEMO_NETWORKS.map(({ address, asn, country, name }) => [address, address, asn, country, name])
  return rows.map((cells) => `${cells.join('\t')}\n`).join('')
}

export function siteUrl({ scheme, host }: Pick<DemoSite, 'scheme' | 'host'>): string {
  return `${scheme}://${host}`
}

/** Programs whose price list full probes read; of the others, the catalogue has the claims. */
function hasPriceList({ relay }: Pick<DemoSite, 'relay'>): boolean {
  return relay === 'new-api' || relay === 'veloera' || relay === 'one-hub' || relay === 'done-hub'
}

/** What a site lists and claims at a time; claims follow the listing's changes only where both have the model. */
export function modelsAt(site: DemoSite, hoursAgo: number): { listed: string[] | null; claimed: string[] } {
  if (site.listed === null) return { listed: null, claimed: [...site.claimed] }
  const listed = new Set(site.listed)
  for (const { hours, added = [], removed = [] } of site.modelChanges ?? []) {
    if (hoursAgo <= hours) continue
    for (const id of added) listed.delete(id)
    for (const id of removed) listed.add(id)
  }
  const isLater = (id: string) => site.listed!.includes(id) && !listed.has(id)
  return { listed: [...listed], claimed: site.claimed.filter((id) => !isLater(id)) }
}

export function demoCatalogue(sites: readonly DemoSite[], nowSec: number): string {
  const entries = sites.map((site) => {
    const { slug, name, claimed, flags = [], firstSeenDays } = site
    const firstSeen = new Date((nowSec - firstSeenDays * DAY_SEC) * 1_000).toISOString().slice(0, 10)
    return `  - slug: ${slug}
    name: ${JSON.stringify(name)}
    url: ${siteUrl(site)}
    first_seen: ${firstSeen}
    models_claimed: [${hasPriceList(site) ? '' : claimed.join(', ')}]
    flags: [${flags.join(', ')}]
`
  })
  return `# Written by \`npm run demo\`; changes are read while the demo runs.\nversion: 1\nsites:\n${entries.join('')}`
}
