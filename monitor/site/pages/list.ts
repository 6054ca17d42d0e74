/** `/`: which relay can be used now, and from where. A form filters; the query holds the filters. */

import { findUnmeasured, measuredRegions } from '../../api/measured-regions.ts'
import { isModelVerified, modelName, offeredModels } from '../../api/model-list.ts'
import type { Query } from '../../api/query.ts'
import { getSiteFacts, isCapped } from '../../api/site-facts.ts'
import { siteIndex } from '../../api/site-index.ts'
import { findSites } from '../../api/site-list.ts'
import { getStatus } from '../../api/site-view.ts'
import type { Region } from '../../facts.ts'
import { displayScore } from '../../scoring/score.ts'
import { TIERS } from '../../scoring/tier.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { strip, stripKey } from '../charts/strip.ts'
import {
  isListUnread,
  listWarned,
  milliseconds,
  notice,
  regionLabel,
  statusLabel,
  tierBadge,
  timeTag,
  warnedMark,
  withGlyph,
} from '../components.ts'
import { toDate, toTime } from '../format.ts'
import { type FrameOptions, frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html, isolate, join } from '../html.ts'
import { href, type Page, type Parameters } from '../page.ts'
import { BOARD_MAX } from './boards.ts'

export const MODELS_OFFERED_MAX = 50 // in the field's suggestions: those that most sites claim or list
export const PAGE_SIZE = 50
const DAYS_PER_WEEK = 7
const WARNED_MAX = BOARD_MAX.black // of the marks that assets/list.js sets; the page itself marks all

type Filters = Record<'q' | 'tier' | 'region' | 'status' | 'software' | 'model', string | undefined> & {
  sort: string
  order: string | undefined
  offset: number
}

/** `query`: of listSites in schema/endpoints.ts, defaults filled in. */
export function listPage(page: Page, site: SiteContext, snapshot: Snapshot, query: Query): Html {
  const filters = { ...query, sort: String(query.sort), offset: Number(query.offset) } as Filters
  const found = findSites(snapshot, query)
  const lastPage = Math.max(0, Math.floor((found.length - 1) / PAGE_SIZE) * PAGE_SIZE)
  filters.offset = Math.min(filters.offset, lastPage)
  const shown = found.slice(filters.offset, filters.offset + PAGE_SIZE)
  const { m } = page
  const frameOptions: FrameOptions = {
    title: m.frame.sites,
    path: '/',
    query: toParameters(filters),
    isIndexed: !isFiltered(filters) && filters.sort === 'rank' && filters.order === undefined,
    scripts: ['list.js'],
    generatedAtSec: snapshot.generatedAtSec,
  }
  return frame(
    page,
    site,
    frameOptions,
    html`<div class="page-head"><h1>${m.list.heading}</h1>
<p class="lead lead-wide">${lead(page, snapshot)}</p></div>
${filterForm(page, snapshot, filters)}
<p class="small" id="count"${(!isFiltered(filters) || found.length === 0) && html` hidden`}><span aria-live="polite">${m.list.matches(page.f, found.length, snapshot.sites.length)}</span>${m.frame.gap}<a href="${href(page, '/')}">${m.list.clear}</a></p>
${regionNotice(page, snapshot)}
${found.length === 0 ? emptyNotice(page, snapshot, filters) : results(page, snapshot, filters, shown, found.length)}`,
  )
}

function lead({ m, f }: Page, snapshot: Snapshot): string {
  if (snapshot.sites.length === 0) return m.list.empty
  const counts = { up: 0, degraded: 0, down: 0 }
  for (const site of snapshot.sites) counts[getStatus(site)]++
  const measured = measuredRegions(snapshot)
  if (measured.length === 0) return m.list.unmeasured
  const seen = measured.length === 2 ? 'both' : measured[0]
  return m.list.lead(f, { ...counts, from: m.list.seenFrom[seen], time: toTime(snapshot.generatedAtSec) })
}

function filterForm(page: Page, snapshot: Snapshot, filters: Filters): Html {
  const { m } = page
  const software = siteIndex(snapshot).software()
  const { tier, region, status, sort } = filters
  const models = offeredModels(snapshot, MODELS_OFFERED_MAX)
  return html`<details class="filters"${isFiltered(filters) && html` open`}><summary>${m.list.filters}</summary>
<form class="filter-grid" method="get" action="/#count" role="search" aria-label="${m.list.filterSites}">
${page.isExplicit && html`<input type="hidden" name="lang" value="${page.language}">`}
<div class="field field-query"><label for="q">${m.list.query}</label><input id="q" name="q" type="search" maxlength="64" autocomplete="off" spellcheck="false" value="${filters.q ?? ''}"></div>
${select(
  page,
  'tier',
  m.list.tier,
  TIERS.map((each) => [each, each]),
  tier,
)}
${select(
  page,
  'region',
  m.list.region,
  [
    ['cn', m.codes.place.cn],
    ['overseas', m.codes.place.overseas],
    ['both', m.list.both],
  ],
  region,
)}
${select(
  page,
  'status',
  m.list.status,
  (['up', 'degraded', 'down'] as const).map((each) => [each, m.codes.status[each]]),
  status,
)}
${select(
  page,
  'software',
  m.list.software,
  software.map((each) => [each, each]),
  filters.software,
)}
<div class="field"><label for="model">${m.list.model}</label><input id="model" name="model" type="text" placeholder="gpt-5.4" maxlength="128" autocomplete="off" spellcheck="false" list="models" value="${filters.model ?? ''}"><datalist id="models">${models.map((id) => html`<option value="${id}">`)}</datalist></div>
<div class="field"><label for="sort">${m.list.sort}</label><select id="sort" name="sort">${(Object.keys(m.list.sorts) as (keyof typeof m.list.sorts)[]).map((each) => option(each, m.list.sorts[each], sort))}</select></div>
<div class="field-actions"><button class="button" type="submit">${m.list.apply}</button></div></form></details>`
}

function select(
  { m }: Page,
  name: string,
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  chosen: string | undefined,
): Html {
  return html`<div class="field"><label for="${name}">${label}</label><select id="${name}" name="${name}">${option('', m.list.any, chosen ?? '')}${options.map(([value, text]) => option(value, text, chosen ?? ''))}</select></div>`
}

function option(value: string, text: string, chosen: string): Html {
  return html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>`
}

function regionNotice(page: Page, snapshot: Snapshot): Content {
  const missing = findUnmeasured(measuredRegions(snapshot))
  if (snapshot.sites.length === 0 || missing === null) return null
  const { title, text } = page.m.list.notMeasured[missing]
  return notice(
    'plain',
    'unknown',
    html`<p><b>${title}</b>${page.m.frame.gap}${text}${page.m.frame.gap}<a href="${href(page, '/methodology')}#regions">${page.m.list.howRegions}</a></p>`,
  )
}

function emptyNotice(page: Page, snapshot: Snapshot, filters: Filters): Content {
  const { m, f } = page
  if (snapshot.sites.length === 0) return null
  const wanted: readonly Region[] =
    filters.region === 'both' ? ['cn', 'overseas'] : filters.region ? [filters.region as Region] : []
  const measured = measuredRegions(snapshot)
  const missing = wanted.find((region) => !measured.includes(region))
  const why = missing
    ? m.list.noRegion(f, m.list.seenFrom[missing], snapshot.sites.length)
    : filters.model === undefined
      ? m.list.noMatchText
      : m.list.noMatchModel
  return notice(
    'plain',
    'unknown',
    html`<p><b>${m.list.noMatch}</b>${m.frame.gap}${why}${m.frame.gap}${join([html`<a href="${href(page, '/')}">${m.list.clear}</a>`, html`<a href="${href(page, '/submit')}">${m.errors.detectOther}</a>`], ' · ')}</p>`,
  )
}

function results(
  page: Page,
  snapshot: Snapshot,
  filters: Filters,
  shown: readonly SiteState[],
  total: number,
): Html {
  const warned = listWarned(snapshot)
  return html`<div class="bar-row">${tierCounts(page, snapshot)}${stripKey(page)}</div>
<table class="table sites" role="table" aria-label="${page.m.list.table}" data-words="${JSON.stringify(toWords(page, snapshot))}">${tableHead(page, snapshot, filters)}
${groupByTier(shown, filters).map(
  (group) =>
    html`<tbody role="rowgroup" class="group">${group.map((each) => row(page, each, snapshot, filters.model, warned))}</tbody>`,
)}</table>
${total > PAGE_SIZE && pager(page, filters, total)}`
}

/** The texts that assets/list.js needs for rows of its own. `{n}` and the like are filled in there. */
function toWords({ m, f }: Page, snapshot: Snapshot) {
  const { status, region } = m.codes
  return {
    status: {
      up: ['up', 'up', status.up],
      degraded: ['degraded', 'degraded', status.degraded],
      down: ['down', 'down', status.down],
    },
    region: {
      reachable: ['up', 'reachable', region.reachable],
      unreachable: ['down', 'down', region.unreachable],
      unknown: ['unknown', 'unknown', region.unknown],
    },
    separator: m.charts.separator,
    notMeasured: m.site.notMeasured,
    capped: m.site.capped,
    daysOnly: Array.from({ length: DAYS_PER_WEEK }, (_, days) => m.list.daysOnly(f, days)),
    strip: m.list.stripSummary,
    week: m.list.sevenDays,
    warned: m.site.warned,
    warnedSlugs: [...listWarned(snapshot)].slice(0, WARNED_MAX),
    matches: m.list.matches(f, COUNT_MARK, snapshot.sites.length).replace(f.number(COUNT_MARK), '{n}'),
  }
}

/** Stands for the number of matches in a text whose number the browser fills in. */
const COUNT_MARK = 987_654_321

function tierCounts(page: Page, { sites }: Snapshot): Html {
  const { m, f } = page
  const counts = TIERS.map((tier) => ({ tier, count: sites.filter((site) => site.tier === tier).length }))
  return html`<ul class="counts" role="list" aria-label="${m.list.counts}"><li>${m.list.sites(f, sites.length)}</li>${counts
    .filter(({ count }) => count > 0)
    .map(
      ({ tier, count }) =>
        html`<li><a href="${href(page, '/', { tier })}">${tierBadge(page, tier)}${f.number(count)}</a></li>`,
    )}</ul>`
}

/** What each sortable column sorts by, and in which direction by default. */
const SORTS = {
  rank: 'descending',
  name: 'ascending',
  availability: 'descending',
  latency: 'ascending',
  last_probed: 'descending',
} as const

function tableHead(page: Page, { generatedAtSec }: Snapshot, filters: Filters): Html {
  const { m } = page
  const { columns } = m.list
  const head = (kind: string, content: Content) =>
    html`<th scope="col" role="columnheader" class="${kind}">${content}</th>`
  const sortable = (kind: string, sort: keyof typeof SORTS, content: Content) => {
    const isCurrent = filters.sort === sort
    const isAscending =
      isCurrent && filters.order !== undefined ? filters.order === 'asc' : SORTS[sort] === 'ascending'
    const direction = isAscending ? 'ascending' : 'descending'
    const order = isCurrent ? (isAscending ? 'desc' : 'asc') : undefined // the current column is reversed
    const link = href(page, '/', { ...toParameters({ ...filters, offset: 0, order }), sort })
    return html`<th scope="col" role="columnheader" class="${kind}"${isCurrent && html` aria-sort="${direction}"`}><a href="${link}"><span>${content}</span>${isCurrent && html` <span aria-hidden="true">${isAscending ? '▴' : '▾'}</span>`}</a></th>`
  }
  const wide = (text: Content) => html`<span class="wide-only">${text}</span>`
  const day = toDate(generatedAtSec)
  return html`<thead role="rowgroup"><tr role="row">${[
    sortable('col-tier', 'rank', [columns.tier, wide(columns.score)]),
    sortable('col-site', 'name', columns.site),
    head('col-now', columns.now),
    head('col-strip', [columns.days, wide(html`${columns.to}<time datetime="${day}">${day}</time>`)]),
    sortable('col-availability num', 'availability', columns.available),
    sortable('col-first-byte num', 'latency', columns.firstByte),
    head('col-cn', [wide(m.codes.from.cn), html`<span class="medium-only">${m.codes.place.cn}</span>`]),
    head('col-overseas', [
      wide(m.codes.from.overseas),
      html`<span class="medium-only">${m.codes.place.overseas}</span>`,
    ]),
    sortable('col-last num', 'last_probed', columns.last),
  ]}</tr></thead>`
}

/** Ranked lists separate the tiers by a stronger rule; other orders are one group. */
function groupByTier(sites: readonly SiteState[], { sort }: Filters): SiteState[][] {
  if (sort !== 'rank') return [[...sites]]
  const groups: SiteState[][] = []
  for (const site of sites) {
    if (groups.at(-1)?.[0].tier === site.tier) groups.at(-1)!.push(site)
    else groups.push([site])
  }
  return groups
}

/**
 * With a filter by model: whether the site lists it itself, only claims it, or its list is not known. In the index's spelling:
 * text before the last `/` of the filter would be shown as a finding.
 */
function modelMark({ m }: Page, snapshot: Snapshot, site: SiteState, model: string): Html {
  const isListed = isModelVerified(snapshot, model, site)
  const { modelListed, modelClaimed, modelUnread } = m.list
  const [kind, name, text] = isListed
    ? (['up', 'reachable', modelListed] as const)
    : isListUnread(site)
      ? (['unknown', 'unknown', modelUnread] as const)
      : (['degraded', 'warning', modelClaimed] as const)
  const shown = isolate(text, modelName(snapshot, model) ?? '')
  return html`<span class="sub">${withGlyph(kind, name, shown)}</span>`
}

function row(
  page: Page,
  site: SiteState,
  snapshot: Snapshot,
  model: string | undefined,
  warned: ReadonlySet<string>,
): Html {
  const { m, f } = page
  const facts = getSiteFacts(site)
  const isWarned = warned.has(site.slug)
  const { host } = new URL(site.url)
  const mark = facts.isProvisional ? m.site.provisional : isCapped(site) && m.site.capped
  const software = facts.software === 'unknown' ? '' : ` · ${facts.software}`
  const daysMeasured = facts.days.filter((day) => day !== null).length
  const week =
    daysMeasured < DAYS_PER_WEEK
      ? m.list.daysOnly(f, daysMeasured)
      : `${m.list.sevenDays} ${facts.availability7d === null ? '–' : f.percent(facts.availability7d)}`
  const cell = (kind: string, label: string, content: Content) =>
    html`<td role="cell" class="${kind} labelled" data-label="${label}">${content}</td>`
  return html`<tr role="row" class="row">
<td role="cell" class="col-tier"><span class="inner">${tierBadge(page, site.tier)}<span class="score"><span class="visually-hidden">${m.site.score} </span><span class="score-value">${f.decimal(displayScore(site.score))}</span>${mark && html`<span class="sub">${mark}</span>`}</span></span></td>
<th scope="row" role="rowheader" class="col-site"><a class="name" href="${href(page, `/sites/${site.slug}`)}"><bdi>${site.name}</bdi></a><span class="sub">${host}${software}${mark && html`<span class="small-only"> · ${mark}</span>`}</span>${isWarned && warnedMark(page)}${model !== undefined && modelMark(page, snapshot, site, model)}</th>
${cell('col-now', m.list.columns.now, statusLabel(page, getStatus(site)))}
<td role="cell" class="col-strip">${strip(page, site.name, facts.days, snapshot.generatedAtSec)}</td>
${cell('col-availability num', m.list.columns.shortDays, [html`<span class="figure">${facts.availability30d === null ? m.site.notMeasured : f.percent(facts.availability30d)}</span>`, html`<span class="sub not-small">${week}</span>`])}
${cell('col-first-byte num', m.list.columns.firstByte, milliseconds(page, facts.p50Ms))}
${cell('col-cn', m.codes.place.cn, regionLabel(page, site.regions.cn.state))}
${cell('col-overseas', m.codes.place.overseas, regionLabel(page, site.regions.overseas.state))}
${cell('col-last num', m.list.columns.last, html`${timeTag(site.lastProbedSec)}<span class="unit"> UTC</span>`)}</tr>`
}

function pager(page: Page, filters: Filters, total: number): Html {
  const { m, f } = page
  const { offset } = filters
  const link = (text: string, at: number, exists: boolean, rel: string) =>
    exists
      ? html`<a class="button button-quiet" rel="${rel}" href="${href(page, '/', toParameters({ ...filters, offset: at }))}">${text}</a>`
      : html`<span class="button button-quiet is-disabled">${text}</span>`
  return html`<nav class="pager" aria-label="${m.list.pages}"><span>${m.list.range(f, offset + 1, Math.min(offset + PAGE_SIZE, total), total)}</span><div>${link(m.list.previous, Math.max(0, offset - PAGE_SIZE), offset > 0, 'prev')}${link(m.list.next, offset + PAGE_SIZE, offset + PAGE_SIZE < total, 'next')}</div></nav>`
}

function isFiltered(filters: Filters): boolean {
  return (['q', 'tier', 'region', 'status', 'software', 'model'] as const).some(
    (name) => filters[name] !== undefined,
  )
}

/** The query of a page: what differs from its defaults. */
function toParameters({
  sort,
  offset,
  order,
  q,
  tier,
  region,
  status,
  software,
  model,
}: Filters): Parameters {
  return {
    ...{ q, tier, region, status, software, model, order },
    ...(sort === 'rank' ? {} : { sort }),
    ...(offset === 0 ? {} : { offset }),
  }
}
