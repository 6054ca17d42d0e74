/**
 * The sites of the demo: how each responds now, and its last 30 days.
 *
 *     relay              the kind of fake relay (test/helpers/fake-relays.ts)
 *     ttfbMs             median time to first byte
 *     upShare            share of probes that find it up
 *     incidents          in hours before now
 *     blockedFromHours   TLS from cn is reset since so many hours before now
 */
import type { ErrorCode, SiteFlag } from '../../../monitor/facts.ts'
import type { RelayKind } from '../../../test/helpers/fake-relays.ts'

export interface DemoSite {
  slug: string
  name: string
  relay: RelayKind
  certificate: 'good' | 'expired' | 'none'
  ttfbMs: number
  upShare: number
  error: ErrorCode // of a failing probe
  claimed?: string[]
  flags?: SiteFlag[]
  blockedFromHours?: number
  isFlapping?: boolean // its relay fails and recovers while the demo runs
  ageDays?: number // of its history; default: all days
  incidents?: { fromHours: number; toHours: number; error: ErrorCode | 'slow' | 'challenge' }[]
}

const MODELS = ['gpt-5.4', 'claude-sonnet-4-6', 'gemini-3-pro']

export const DEMO_SITES: readonly DemoSite[] = [
  {
    ...{ slug: 'aurora', name: 'Aurora API', relay: 'open', certificate: 'good' },
    ...{ ttfbMs: 210, upShare: 0.9997, error: 'http_5xx', claimed: MODELS },
  },
  {
    ...{ slug: 'bamboo', name: 'Bamboo Gateway', relay: 'new-api', certificate: 'good' },
    ...{ ttfbMs: 340, upShare: 0.998, error: 'http_5xx', blockedFromHours: 200 },
    incidents: [{ fromHours: 400, toHours: 397, error: 'http_5xx' }],
  },
  {
    ...{ slug: 'cobalt', name: 'Cobalt One', relay: 'one-api', certificate: 'good' },
    ...{ ttfbMs: 620, upShare: 0.993, error: 'connect_timeout' },
  },
  {
    ...{ slug: 'delta', name: 'Delta Hub', relay: 'one-hub', certificate: 'none' },
    ...{ ttfbMs: 480, upShare: 0.985, error: 'http_reset' },
    incidents: [{ fromHours: 90, toHours: 84, error: 'connect_refused' }],
  },
  {
    ...{ slug: 'ember', name: 'Ember Relay', relay: 'sub2api', certificate: 'good' },
    ...{ ttfbMs: 900, upShare: 0.93, error: 'http_5xx', isFlapping: true },
  },
  {
    ...{ slug: 'fjord', name: 'Fjord Models', relay: 'slow', certificate: 'good' },
    ...{ ttfbMs: 2_600, upShare: 0.97, error: 'http_timeout' },
    incidents: [{ fromHours: 60, toHours: 0, error: 'slow' }],
  },
  {
    ...{ slug: 'glacier', name: 'Glacier Shield', relay: 'challenge', certificate: 'good' },
    ...{ ttfbMs: 180, upShare: 0.99, error: 'http_4xx' },
    incidents: [{ fromHours: 120, toHours: 0, error: 'challenge' }],
  },
  {
    ...{ slug: 'harbor', name: 'Harbor All Models', relay: 'liar', certificate: 'good' },
    ...{ ttfbMs: 300, upShare: 0.996, error: 'http_5xx' },
    claimed: ['gpt-6', 'gpt-5.4-turbo', 'claude-opus-5', 'gemini-4-ultra', 'grok-6', 'llama-5'],
  },
  {
    ...{ slug: 'iris', name: 'Iris Cloud', relay: 'new-api', certificate: 'expired' },
    ...{ ttfbMs: 400, upShare: 0.997, error: 'http_5xx' },
    incidents: [{ fromHours: 30, toHours: 0, error: 'tls_expired' }],
  },
  {
    ...{ slug: 'juniper', name: 'Juniper Proxy', relay: 'parked', certificate: 'none' },
    ...{ ttfbMs: 500, upShare: 0.95, error: 'http_5xx' },
    incidents: [{ fromHours: 140, toHours: 0, error: 'parked' }],
  },
  {
    ...{ slug: 'koi', name: 'Koi Relay', relay: 'failing', certificate: 'good' },
    ...{ ttfbMs: 700, upShare: 0.98, error: 'http_5xx' },
    incidents: [{ fromHours: 31, toHours: 0, error: 'http_5xx' }],
  },
  {
    ...{ slug: 'lotus', name: 'Lotus (new)', relay: 'open-models', certificate: 'good' },
    ...{ ttfbMs: 260, upShare: 0.9995, error: 'http_5xx', ageDays: 2 },
  },
  {
    ...{ slug: 'mirage', name: 'Mirage Bargains', relay: 'litellm', certificate: 'good' },
    ...{ ttfbMs: 350, upShare: 0.999, error: 'http_5xx', flags: ['scam'] },
  },
]

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

export const DEMO_DOMAIN = 'demo-relays.com' // never resolved by DNS

export function siteUrl({ slug, certificate }: DemoSite): string {
  return `${certificate === 'none' ? 'http' : 'https'}://${slug}.${DEMO_DOMAIN}`
}

export function demoCatalogue(sites: readonly DemoSite[], firstSeen: (site: DemoSite) => string): string {
  const entries = sites.map((site) => {
    const { slug, name, claimed = [], flags = [] } = site
    return `  - slug: ${slug}
    name: ${JSON.stringify(name)}
    url: ${siteUrl(site)}
    first_seen: ${firstSeen(site)}
    models_claimed: [${claimed.join(', ')}]
    flags: [${flags.join(', ')}]
`
  })
  return `# Written by \`npm run demo\`; changes are read while the demo runs.\nversion: 1\nsites:\n${entries.join('')}`
}
