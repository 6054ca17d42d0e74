/**
 * Indexes of a snapshot's sites: orders, slugs, folded text, hosts, software. Each is built once per snapshot, on first use, so that
 * requests neither parse nor sort all sites.
 *
 *     siteIndex(snapshot).ordered('latency', 'desc')    all sites; a filter keeps the order
 *                        .bySlug('a')               undefined = none; aliases are not read
 *                        .hasText(site, foldedText)     in name, slug or host
 *                        .slugOfHost('a.example.com')   the first site at that host
 *                        .software()                sorted
 */
import { TIERS } from '../scoring/tier.ts'
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import { getSiteFacts } from './site-facts.ts'

type Key = number | string | null

/** The key of each order, and whether it descends by default. */
const KEYS: Record<string, { toKey: (site: SiteState) => Key; isFalling: boolean }> = {
  name: { toKey: ({ name }) => fold(name), isFalling: false },
  first_seen: { toKey: ({ firstSeen }) => firstSeen, isFalling: true },
  last_probed: { toKey: ({ lastProbedSec }) => lastProbedSec, isFalling: true },
  availability: { toKey: (site) => getSiteFacts(site).availability30d, isFalling: true },
  latency: { toKey: (site) => getSiteFacts(site).p50Ms, isFalling: false },
}

const indexes = new WeakMap<Snapshot, SiteIndex>()

export function siteIndex(snapshot: Snapshot): SiteIndex {
  let index = indexes.get(snapshot)
  if (!index) {
    index = new SiteIndex(snapshot.sites)
    indexes.set(snapshot, index)
  }
  return index
}

/** Folds text for comparison: compatibility forms and case do not matter. */
export function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

class SiteIndex {
  private readonly sites: readonly SiteState[]
  private readonly orders = new Map<string, readonly SiteState[]>() // two per sort
  private names: Names | null = null
  private slugs: Map<string, SiteState> | null = null
  private softwareNames: readonly string[] | null = null

  constructor(sites: readonly SiteState[]) {
    this.sites = sites
  }

  /** `rank` is from tier S to D, then by score. Every order ends with the slug, so pages never overlap. */
  ordered(sort: string, order: 'asc' | 'desc' | undefined): readonly SiteState[] {
    const isFalling = order === undefined ? (KEYS[sort]?.isFalling ?? false) : order === 'desc'
    const name = `${sort} ${isFalling}`
    let sites = this.orders.get(name)
    if (!sites) {
      sites = sort === 'rank' ? this.byRank(isFalling) : this.byKey(KEYS[sort].toKey, isFalling)
      this.orders.set(name, sites)
    }
    return sites
  }

  bySlug(slug: string): SiteState | undefined {
    this.slugs ??= new Map(this.sites.map((site) => [site.slug, site]))
    return this.slugs.get(slug)
  }

  software(): readonly string[] {
    this.softwareNames ??= [...new Set(this.sites.map((site) => getSiteFacts(site).software))].sort()
    return this.softwareNames
  }

  /** `text` is folded. */
  hasText(site: SiteState, text: string): boolean {
    this.names ??= indexNames(this.sites)
    return this.names.texts.get(site)!.some((each) => each.includes(text))
  }

  slugOfHost(host: string): string | null {
    this.names ??= indexNames(this.sites)
    return this.names.slugs.get(host) ?? null
  }

  private byRank(isFalling: boolean): SiteState[] {
    const sign = isFalling ? -1 : 1
    return this.sites.toSorted((a, b) => {
      const isBetter = TIERS.indexOf(a.tier) - TIERS.indexOf(b.tier) || b.score - a.score
      return sign * isBetter || compareSlugs(a, b)
    })
  }

  private byKey(toKey: (site: SiteState) => Key, isFalling: boolean): SiteState[] {
    const sign = isFalling ? -1 : 1
    const keyed = this.sites.map((site) => ({ site, key: toKey(site) }))
    keyed.sort((a, b) => compareKeys(a.key, b.key, sign) || compareSlugs(a.site, b.site))
    return keyed.map(({ site }) => site)
  }
}

interface Names {
  texts: Map<SiteState, readonly string[]> // folded; slugs and hosts are lower case ASCII as they are
  slugs: Map<string, string> // by host, without port
}

function indexNames(sites: readonly SiteState[]): Names {
  const texts: Names['texts'] = new Map()
  const slugs: Names['slugs'] = new Map()
  for (const site of sites) {
    const { host, hostname } = new URL(site.url)
    texts.set(site, [fold(site.name), site.slug, host])
    if (!slugs.has(hostname)) slugs.set(hostname, site.slug)
  }
  return { texts, slugs }
}

/** Unknown values come last in both directions. */
function compareKeys(a: Key, b: Key, sign: number): number {
  if (a === b) return 0
  if (a === null || b === null) return a === null ? 1 : -1
  return a < b ? -sign : sign
}

function compareSlugs(a: SiteState, b: SiteState): number {
  if (a.slug === b.slug) return 0
  return a.slug < b.slug ? -1 : 1
}
