/**
 * `GET /sites` (spec 3.1): order, filter, page. Uses the snapshot and its indexes (site-index.ts) only.
 */
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import type { Headers } from './errors.ts'
import { havingModel } from './model-list.ts'
import type { Query } from './query.ts'
import { getSiteFacts } from './site-facts.ts'
import { fold, siteIndex } from './site-index.ts'
import { getStatus, siteView, summaryView } from './site-view.ts'

const LISTS_MAX = 64 // per snapshot, each of at most 5,000 pointers; beyond, all are dropped
const lists = new WeakMap<Snapshot, Map<string, readonly SiteState[]>>()

export function siteList(snapshot: Snapshot, query: Query) {
  const found = findSites(snapshot, query)
  const offset = Number(query.offset)
  const page = found.slice(offset, offset + Number(query.limit))
  const hasSummary = query.include === 'summary'
  const sites = page.map((site) =>
    hasSummary ? { ...siteView(site), summary: summaryView(site) } : siteView(site),
  )
  return { total: found.length, sites }
}

/** All sites that match a query, in order; its pages share the list while the snapshot lasts. */
export function findSites(snapshot: Snapshot, query: Query): readonly SiteState[] {
  const known = lists.get(snapshot) ?? new Map<string, readonly SiteState[]>()
  lists.set(snapshot, known)
  const { limit, offset, include, ...filter } = query
  const key = canonicalQuery(filter)
  const found = known.get(key) ?? find(snapshot, query)
  if (known.size >= LISTS_MAX) known.clear()
  known.set(key, found)
  return found
}

function find(snapshot: Snapshot, query: Query): SiteState[] {
  const { model, q, sort, order } = query
  const index = siteIndex(snapshot)
  const hasModel = model === undefined ? () => true : havingModel(snapshot, String(model))
  const text = q === undefined ? null : fold(String(q))
  return index
    .ordered(String(sort), order as 'asc' | 'desc' | undefined)
    .filter((site) => isWanted(site, query) && (text === null || index.hasText(site, text)) && hasModel(site))
}

/** Links to the other pages, with the same parameters (RFC 8288). */
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
    .map(([rel, at]) => `<${path}?${canonicalQuery({ ...query, offset: at })}>; rel="${rel}"`)
  return links.length === 0 ? [] : [['Link', links.join(', ')]]
}

/** Known parameters in a fixed order, so that equal queries have equal text. */
export function canonicalQuery(query: Query): string {
  const params = new URLSearchParams()
  for (const name of Object.keys(query).sort()) {
    if (query[name] !== undefined) params.set(name, String(query[name]))
  }
  return params.toString()
}

function isWanted(site: SiteState, { tier, region, software, status }: Query): boolean {
  if (tier !== undefined && site.tier !== tier) return false
  if (region !== undefined && !isReachable(site, String(region))) return false
  if (status !== undefined && getStatus(site) !== status) return false
  return software === undefined || getSiteFacts(site).software === software
}

function isReachable({ regions }: SiteState, region: string): boolean {
  const wanted = region === 'both' ? (['cn', 'overseas'] as const) : [region as 'cn' | 'overseas']
  return wanted.every((each) => regions[each].state === 'reachable')
}
