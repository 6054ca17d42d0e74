/**
 * `GET /sites` (spec 3.1): filter, order, cut. From the snapshot alone.
 *
 *     rank   S to D ─► score, best first ─► slug        every order ends with the slug, so pages never overlap
 */
import { TIERS } from '../score/tier.ts'
import type { SiteState, Snapshot } from '../store/snapshot.ts'
import type { Headers } from './errors.ts'
import { havingModel } from './model-list.ts'
import type { Query } from './query.ts'
import { factsOf } from './site-facts.ts'
import { siteView, statusOf, summaryView } from './site-view.ts'

const LISTS_MAX = 64 // per snapshot: 5,000 pointers each at most
const lists = new WeakMap<Snapshot, Map<string, readonly SiteState[]>>()

export function siteList(snapshot: Snapshot, query: Query) {
  const found = foundIn(snapshot, query)
  const offset = Number(query.offset)
  const page = found.slice(offset, offset + Number(query.limit))
  const hasSummary = query.include === 'summary'
  const sites = page.map((site) =>
    hasSummary ? { ...siteView(site), summary: summaryView(site) } : siteView(site),
  )
  return { total: found.length, sites }
}

/** All sites that a question finds, in its order; its pages share them while the snapshot lasts. */
function foundIn(snapshot: Snapshot, query: Query): readonly SiteState[] {
  const known = lists.get(snapshot) ?? new Map<string, readonly SiteState[]>()
  lists.set(snapshot, known)
  const { limit, offset, include, ...question } = query
  const key = paramsOf(question)
  const found = known.get(key) ?? find(snapshot, query)
  if (known.size >= LISTS_MAX) known.clear()
  known.set(key, found)
  return found
}

function find(snapshot: Snapshot, query: Query): SiteState[] {
  const hasModel = query.model === undefined ? () => true : havingModel(snapshot, String(query.model))
  return snapshot.sites.filter((site) => isWanted(site, query) && hasModel(site)).sort(orderOf(query))
}

/** The pages there are, other parameters kept (RFC 8288). */
export function pageLinks(path: string, total: number, query: Query): Headers {
  const limit = Number(query.limit)
  const offset = Number(query.offset)
  const last = total === 0 ? 0 : Math.floor((total - 1) / limit) * limit
  const pages: [string, number, boolean][] = [
    ['first', 0, total > 0],
    ['prev', Math.max(0, Math.min(offset - limit, last)), offset > 0 && total > 0],
    ['next', offset + limit, offset + limit < total],
    ['last', last, total > 0],
  ]
  const links = pages
    .filter(([, , exists]) => exists)
    .map(([rel, at]) => `<${path}?${paramsOf({ ...query, offset: at })}>; rel="${rel}"`)
  return links.length === 0 ? [] : [['Link', links.join(', ')]]
}

/** Known parameters in one order, so that equal questions have equal text. */
export function paramsOf(query: Query): string {
  const params = new URLSearchParams()
  for (const name of Object.keys(query).sort()) {
    if (query[name] !== undefined) params.set(name, String(query[name]))
  }
  return params.toString()
}

function isWanted(site: SiteState, { tier, region, q, software, status }: Query): boolean {
  if (tier !== undefined && site.tier !== tier) return false
  if (region !== undefined && !isReachable(site, String(region))) return false
  if (status !== undefined && statusOf(site) !== status) return false
  if (software !== undefined && factsOf(site).software !== software) return false
  return q === undefined || hasText(site, fold(String(q)))
}

function isReachable({ regions }: SiteState, region: string): boolean {
  const wanted = region === 'both' ? (['cn', 'overseas'] as const) : [region as 'cn' | 'overseas']
  return wanted.every((each) => regions[each].state === 'reachable')
}

function hasText({ name, slug, url }: SiteState, text: string): boolean {
  return [name, slug, new URL(url).host].some((each) => fold(each).includes(text))
}

function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

type Order = (a: SiteState, b: SiteState) => number
type Key = (site: SiteState) => number | string | null

/** What each order compares, and whether the small or the big come first unless the caller says so. */
const KEYS: Record<string, { key: Key; isFalling: boolean }> = {
  name: { key: ({ name }) => fold(name), isFalling: false },
  first_seen: { key: ({ firstSeen }) => firstSeen, isFalling: true },
  last_probed: { key: ({ lastProbedSec }) => lastProbedSec, isFalling: true },
  availability: { key: (site) => factsOf(site).availability30d, isFalling: true },
  latency: { key: (site) => factsOf(site).p50Ms, isFalling: false },
}

function orderOf({ sort, order }: Query): Order {
  if (sort === 'rank') {
    const sign = order === 'desc' ? -1 : 1
    return (a, b) => sign * byRank(a, b) || bySlug(a, b)
  }
  const { key, isFalling } = KEYS[String(sort)]
  const sign = (order === undefined ? isFalling : order === 'desc') ? -1 : 1
  return (a, b) => byKey(key(a), key(b), sign) || bySlug(a, b)
}

function byRank(a: SiteState, b: SiteState): number {
  return TIERS.indexOf(a.tier) - TIERS.indexOf(b.tier) || b.score - a.score
}

/** What is not known comes last in both directions. */
function byKey(a: number | string | null, b: number | string | null, sign: number): number {
  if (a === b) return 0
  if (a === null || b === null) return a === null ? 1 : -1
  return a < b ? -sign : sign
}

function bySlug(a: SiteState, b: SiteState): number {
  if (a.slug === b.slug) return 0
  return a.slug < b.slug ? -1 : 1
}
