/** A store in memory: sites, their probes and detections, as the API asks for them. */

import type { Details } from '../../../monitor/api/site-detail.ts'
import type { SiteFacts } from '../../../monitor/api/site-facts.ts'
import type { RegionState } from '../../../monitor/facts.ts'
import { addProbe, type Bucket, emptyBucket, type HOUR_SEC } from '../../../monitor/scoring/bucket.ts'
import { ModelIndex, packEntry } from '../../../monitor/storage/model-index.ts'
import type { DetectionRow, Write } from '../../../monitor/storage/rows.ts'
import type { SiteState, Snapshot } from '../../../monitor/storage/snapshot.ts'

export const NOON = 1_763_640_000 // 2025-11-20T12:00:00Z

const region = (state: RegionState['state']): RegionState => {
  return { state, blocking: 'none', vantages: 1, agreeing: 1, checkedAtSec: NOON - 60 }
}

const FACTS: SiteFacts = {
  availability7d: 0.99871234,
  availability30d: 0.98,
  availabilityPeak30d: null,
  probes30d: 8_640,
  p50Ms: 230,
  days: [1, 0.5, null],
  software: 'new-api',
  modelsClaimed: 2,
  modelsVerified: 1,
  isProvisional: false,
  components: [
    { key: 'availability', weight: 40, value: 0.91234567, inputs: { a24h: 1, a7d: 0.99, a30d: null } },
    { key: 'models', weight: 20, value: null, inputs: { truthRatio: null } },
  ],
  caps: [{ code: 'certificate_invalid', maxTier: 'C' }],
  method: 'score-1',
  computedAtSec: NOON - 300,
}

export function site(
  id: number,
  slug: string,
  more: Partial<SiteState> & { facts?: unknown } = {},
): SiteState {
  return {
    id,
    slug,
    name: `Site ${slug}`,
    url: `https://${slug}.example.com`,
    apiBase: `https://${slug}.example.com`,
    firstSeen: '2025-03-01',
    state: 'up',
    tier: 'A',
    tierSinceSec: NOON - 86_400,
    score: 85.25,
    facts: FACTS,
    lastProbedSec: NOON - 60,
    screenshotAtSec: null,
    regions: { cn: region('reachable'), overseas: region('reachable') },
    ...more,
  }
}

const SCREENSHOT = {
  path: '/media/screenshots/alpha/2025-11.webp',
  sha256: 'a1'.repeat(32),
  takenAtSec: NOON - 3_600,
}

/** Names tell what is special about them. */
export const SITES: SiteState[] = [
  site(1, 'alpha'),
  site(2, 'best', { tier: 'S', score: 95 }),
  site(3, 'cn-only', { regions: { cn: region('reachable'), overseas: region('unreachable') }, score: 81 }),
  site(4, 'down', {
    tier: 'D',
    state: 'down',
    score: 12.4,
    regions: { cn: region('unknown'), overseas: region('unreachable') },
  }),
  site(5, 'equal', { score: 85.25 }),
  site(6, 'no-facts', { tier: 'C', facts: null, score: 50, name: 'Größe 站 <b>' }),
]

/** alpha as its detail has it; best lists what nobody claims; cn-only's listing is too old to count. */
const MODEL_INDEX = ModelIndex.NONE.with({
  isWhole: true,
  names: ['gpt-5.4', 'claude-sonnet-4-6', 'qwen3-max'],
  sites: [
    [
      1,
      { entries: Uint32Array.of(packEntry(0, true, true), packEntry(1, true, false)), seenSec: NOON - 600 },
    ],
    [
      2,
      { entries: Uint32Array.of(packEntry(0, false, true), packEntry(2, false, true)), seenSec: NOON - 600 },
    ],
    [
      3,
      {
        entries: Uint32Array.of(packEntry(0, true, true), packEntry(2, false, true)),
        seenSec: NOON - 300_000,
      },
    ],
  ],
})

export function createSnapshot(sites = SITES, more: Partial<Snapshot> = {}): Snapshot {
  return {
    version: 7,
    generatedAtSec: NOON,
    sites,
    aliases: { 'old-alpha': 'alpha' },
    boards: {
      red: [
        { siteId: 2, slug: 'best', rank: 1, rankBefore: 3, sinceSec: NOON - 86_400, reasons: ['fast'] },
        {
          siteId: 1,
          slug: 'alpha',
          rank: 2,
          rankBefore: null,
          sinceSec: NOON,
          reasons: ['models_true', 'fast'],
        },
      ],
      black: [{ siteId: 4, slug: 'down', rank: 1, rankBefore: 1, sinceSec: NOON, reasons: ['down_72h'] }],
    },
    vantages: [{ name: 'main', region: 'overseas', country: null, lastSeenSec: NOON - 5 }],
    apiKeys: [],
    agents: [],
    models: MODEL_INDEX,
    ...more,
  }
}

export class FakeStore {
  readonly detections = new Map<string, DetectionRow>()
  failure: Error | null = null // of every read
  reads = 0
  bucketsMax = Number.POSITIVE_INFINITY // the newest ones of a history

  write = (write: Write): void => {
    if (write.kind === 'detection') this.detections.set(write.detection.id, write.detection)
  }

  read = (async (method: string, ...args: unknown[]) => {
    this.reads++
    if (this.failure) throw this.failure
    return this.answers[method](...(args as never[]))
  }) as Details['read']

  private readonly answers: Record<string, (...args: never[]) => unknown> = {
    history: ({ fromSec, toSec, windowSec }: { fromSec: number; toSec: number; windowSec: number }) => {
      const buckets: Bucket[] = []
      for (let atSec = fromSec; atSec < toSec; atSec += windowSec) buckets.push(bucketAt(atSec, windowSec))
      return buckets.slice(-this.bucketsMax)
    },
    rawProbes: () => [probeAt(NOON - 60), probeAt(NOON - 360)],
    observation: (id: number) => (id === 1 ? OBSERVATION : null),
    modelSources: (id: number) =>
      id === 1
        ? { catalogue: ['claude-sonnet-4-6'], answered: OBSERVATION }
        : { catalogue: id === 5 ? MANY_MODELS : [], answered: null },
    models: (id: number) => (id === 1 ? MODELS : []),
    modelChanges: () => [{ atSec: NOON - 999, change: 'added', id: 'gpt-5.4' }],
    incidents: () => [
      { id: 9, region: 'all', startedAtSec: NOON - 500, endedAtSec: null, cause: 'http_5xx', vantages: 1 },
    ],
    newestScreenshot: (id: number) => (id === 1 ? SCREENSHOT : null),
    screenshot: (id: number, month: string) => (id === 1 && month === '2025-11' ? SCREENSHOT : null),
    detection: (id: string) => this.detections.get(id) ?? null,
    newestDetection: (key: string) =>
      [...this.detections.values()].filter(({ targetKey }) => targetKey === key).at(-1) ?? null,
  }
}

function bucketAt(atSec: number, windowSec: number): Bucket {
  const bucket = emptyBucket(atSec, windowSec as typeof HOUR_SEC)
  addProbe(bucket, probeAt(atSec))
  return bucket
}

function probeAt(atSec: number) {
  const timings = { dnsMs: 4, connectMs: 38, tlsMs: 44, ttfbMs: 212, totalMs: 230 }
  return { atSec, kind: 'light', outcome: 'up', error: null, httpStatus: 401, timings } as const
}

const MANY_MODELS = Array.from({ length: 40 }, (_, i) => `model-${i}`)

const seen = { firstSeenSec: NOON - 9_000, lastSeenSec: NOON - 600 }
const MODELS = [
  { id: 'gpt-5.4', ...seen },
  { id: 'claude-sonnet-4-6', ...seen },
]

export const NETWORK = {
  cdn: { provider: 'cloudflare', evidence: ['header:cf-ray'] },
  asn: { number: 13_335, name: 'CLOUDFLARENET', country: 'US' },
  ips: ['104.16.0.1'],
  hasIpv6: true,
  tls: { version: 'TLSv1.3', issuer: 'WE1', notAfterSec: NOON + 70 * 86_400, isValid: true, alpn: 'h2' },
  software: { name: 'new-api', version: 'v1.0.0', confidence: 0.98 },
}
const OBSERVATION = {
  atSec: NOON - 3_600,
  models: ['gpt-5.4'],
  listing: 'open',
  claimed: ['gpt-5.4'],
  profile: NETWORK,
  hygiene: { redirectsToHttps: true, hasHsts: null, leaksUpstream: null },
  isParked: false,
}
