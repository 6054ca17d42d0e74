/** `/sites/{slug}`: may this relay be trusted, and why has it its tier. */

import { domainToUnicode } from 'node:url'
import { getSiteFacts, isCapped } from '../../api/site-facts.ts'
import { getStatus } from '../../api/site-view.ts'
import type { ErrorCode } from '../../facts.ts'
import { displayScore } from '../../scoring/score.ts'
import { toTier } from '../../scoring/tier.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { availabilityChart, availabilityTable, hoursBelowTable } from '../charts/availability.ts'
import { causesTable, countCauses } from '../charts/causes.ts'
import { DAYS, type DayGrid } from '../charts/days.ts'
import { latencyChart, latencyTable, sparkline } from '../charts/latency.ts'
import { stripKey } from '../charts/strip.ts'
import { waterfall } from '../charts/waterfall.ts'
import {
  dateTag,
  dateTimeTag,
  describeSample,
  isListUnread,
  keyFigure,
  milliseconds,
  mistakeLink,
  moreTable,
  notice,
  percentOr,
  section,
  statusLabel,
  tierBadge,
} from '../components.ts'
import { toDate } from '../format.ts'
import { frame, type SiteContext } from '../frame.ts'
import { glyph } from '../glyphs.ts'
import { type Content, type Html, html, join } from '../html.ts'
import { href, type Page } from '../page.ts'
import { describeReason } from './boards.ts'
import type { SiteData } from './site-data.ts'
import { modelsSection } from './site-models.ts'
import { networkSection } from './site-network.ts'
import { regionStates } from './site-regions.ts'
import { describeDuration, explainTier } from './site-why.ts'

/** `isPictureDue`: whether a site without a picture gets one. */
export function sitePage(
  page: Page,
  context: SiteContext,
  snapshot: Snapshot,
  site: SiteState,
  data: SiteData,
  isPictureDue: boolean,
): Html {
  const { m } = page
  const why = explainTier(page, snapshot, site, data)
  const options = {
    title: site.name,
    path: `/sites/${site.slug}`,
    generatedAtSec: snapshot.generatedAtSec,
    description: `${site.name}: ${why}`,
    scripts: ['models.js'],
  }
  return frame(
    page,
    context,
    options,
    html`<div class="stack">${[
      hero(page, context, snapshot, site, data, why),
      html`<div class="columns columns-main">${whySection(page, site)}<div class="col">${[
        section('reach', m.sitePage.reachability, regionStates(page, snapshot, site)),
        causesSection(page, data),
      ]}</div></div>`,
      html`<div class="columns columns-main">${historySection(page, snapshot, site, data)}<div class="col">${[
        incidentsSection(page, data),
        networkSection(page, site, data.detail.network_profile),
      ]}</div></div>`,
      modelsSection(page, snapshot, site, data),
      screenshotSection(page, context, site, data, isPictureDue),
    ]}</div>`,
  )
}

function hero(
  page: Page,
  context: SiteContext,
  snapshot: Snapshot,
  site: SiteState,
  data: SiteData,
  why: string,
): Html {
  const { m } = page
  const { since } = m.sitePage
  return html`<div class="hero"><p class="breadcrumb"><a href="${href(page, '/')}">${m.frame.sites}</a> <span aria-hidden="true">/</span> <bdi>${site.name}</bdi></p>
<div class="title">${tierBadge(page, site.tier, true)}<div><h1><bdi>${site.name}</bdi></h1>
<p class="host"><span>${statusLabel(page, getStatus(site))}</span>${externalLink(site.url)}<span>${since} <time datetime="${site.firstSeen}">${site.firstSeen}</time></span></p></div></div>
<p class="why">${why}</p>
${boardNotice(page, context, snapshot, site)}
${keyFigures(page, site, data)}
<nav class="anchors" aria-label="${m.sitePage.onThisPage}"><a href="#why">${m.sitePage.whyTier(site.tier)}</a><a href="#reach">${m.sitePage.reachability}</a><a href="#availability">${m.sitePage.month}</a><a href="#incidents">${m.sitePage.incidents}</a><a href="#models">${m.sitePage.models}</a></nav></div>`
}

/** Shown with the real host: a name in another script also in its ASCII form, since scripts have look-alikes. */
export function externalLink(url: string): Html {
  const { origin, hostname } = new URL(url)
  const name = domainToUnicode(hostname)
  const text = name === hostname || name === '' ? origin : `${name} (${origin})`
  return html`<a class="external" href="${url}" rel="nofollow noopener noreferrer ugc">${text} ${glyph('external')}</a>`
}

function boardNotice(
  page: Page,
  { supportEmail }: SiteContext,
  { boards }: Snapshot,
  site: SiteState,
): Content {
  const { m, f } = page
  const link = html`<a href="${href(page, '/leaderboard')}">${m.sitePage.theBoard}</a>`
  const red = boards.red.find(({ slug }) => slug === site.slug)
  if (red) {
    return notice(
      'plain',
      'best',
      html`<p><b>${m.sitePage.recommended(f, red.rank, toDate(red.sinceSec))}</b>${m.frame.gap}${link}</p>`,
    )
  }
  const black = boards.black.find(({ slug }) => slug === site.slug)
  if (!black) return null
  const reasons = black.reasons.map((reason) => describeReason(page, reason, site, 'black'))
  const sample = describeSample(page, site)
  const isFlagged = black.reasons.includes('flag_scam')
  const certainty = html`<p class="small muted">${join([sample !== '' && html`${sample}${m.sitePage.stop}`, isFlagged && m.sitePage.flagCertainty], m.frame.gap)}${m.frame.gap}<a href="${href(page, '/methodology')}#certainty">${m.method.certainty}</a></p>`
  const mistake = supportEmail !== '' && mistakeLink(page, supportEmail, site.name)
  const takeOff = html`<a href="${href(page, '/about/probe')}#out">${m.method.probe.out}</a>`
  return notice(
    'bad',
    'stop',
    html`<p><b>${m.sitePage.warned(f, black.rank, toDate(black.sinceSec))}</b>${m.frame.gap}${reasons.join(m.sitePage.reasonSeparator)}${m.sitePage.stop}${m.frame.gap}${join([link, mistake, takeOff], ' · ')}</p>`,
    certainty,
  )
}

function keyFigures(page: Page, site: SiteState, { grid, models: { models: allModels } }: SiteData): Html {
  const { m, f } = page
  const { figures } = m.sitePage
  const facts = getSiteFacts(site)
  const inputs = (key: string) => facts.components.find((component) => component.key === key)?.inputs ?? {}
  const percent = (ratio: number | null | undefined) => percentOr(page, ratio)
  const p95 = inputs('latency').p95Ms
  const days = facts.days.filter((day) => day !== null).length
  const claimed = allModels.filter((each) => each.claimed)
  const listed = claimed.filter((each) => each.verified)
  const models: [Content, string] =
    claimed.length === 0
      ? ['–', figures.claimsNone]
      : isListUnread(site)
        ? [f.number(claimed.length), figures.claimedUnread]
        : [
            html`${f.number(listed.length)}<span class="unit"> / ${f.number(claimed.length)}</span>`,
            figures.claimedListed(f, claimed.length, listed.length),
          ]
  const software: [string, string] =
    facts.software === 'unknown' ? [figures.unknown, figures.noFingerprint] : [facts.software, '']
  return html`<dl class="key-figures">${[
    keyFigure(figures.score, f.decimal(displayScore(site.score)), figures.of100(site.tier)),
    keyFigure(
      figures.week,
      percent(facts.availability7d),
      `${figures.day} ${percent(inputs('availability').a24h)}`,
    ),
    keyFigure(
      figures.month,
      percent(facts.availability30d),
      join(
        [days < DAYS && m.list.daysOnly(f, days), `${figures.peak} ${percent(facts.availabilityPeak30d)}`],
        m.charts.separator,
      ),
    ),
    keyFigure(figures.firstByte, milliseconds(page, facts.p50Ms), [
      p95 == null ? '' : `p95 ${f.number(p95)} ms`,
      sparkline(grid),
    ]),
    keyFigure(figures.models, ...models),
    keyFigure(figures.software, ...software),
  ]}</dl>`
}

function whySection(page: Page, site: SiteState): Html {
  const { m } = page
  const { components, caps, method, isProvisional } = getSiteFacts(site)
  const formula = html`<p class="end"><a href="${href(page, '/methodology')}#score">${m.sitePage.formula(method)}</a></p>`
  const capList = html`<ul>${caps.map(({ code }) => html`<li>${m.codes.caps[code] ?? code}</li>`)}</ul>`
  const isHeld = isCapped(site) || isProvisional
  const title = isHeld ? m.sitePage.capsTitle : m.sitePage.capsBelow
  const own = toTier(site.score)
  const isKept = own !== site.tier && !caps.some(({ maxTier }) => maxTier === site.tier)
  const rule = [
    isKept && html`<p class="small space-small">${m.sitePage.tierKept(site.tier, own)}</p>`,
    caps.length > 0
      ? notice('warn', 'warning', html`<p><b>${title}</b></p>`, capList)
      : html`<p class="small muted">${m.sitePage.noCaps}</p>`,
  ]
  return section(
    'why',
    m.sitePage.whyTier(site.tier),
    [
      html`<p class="small muted">${m.charts.waterfallNote}</p>`,
      waterfall(page, components, displayScore(site.score), isListUnread(site)),
      rule,
    ],
    formula,
  )
}

function causesSection(page: Page, { grid }: SiteData): Html {
  const { m, f } = page
  const causes: [ErrorCode, number][] = countCauses(grid.days)
  const { all, failed, degraded } = countProbes(grid)
  if (causes.length === 0)
    return section(
      'causes',
      m.sitePage.failed,
      html`<p class="muted">${m.sitePage.noFailures}</p><p class="small muted space-small">${m.sitePage.failedOmits}</p>`,
    )
  return section(
    'causes',
    m.sitePage.failed,
    [causesTable(page, causes), html`<p class="small muted space-small">${m.sitePage.failedOmits}</p>`],
    html`<p>${m.sitePage.failedCount(f, failed, degraded, all)}</p>`,
  )
}

function countProbes({ days }: DayGrid) {
  const counts = { all: 0, failed: 0, degraded: 0 }
  for (const point of days) {
    counts.all += point?.probes ?? 0
    counts.failed += point?.down ?? 0
    counts.degraded += point?.degraded ?? 0
  }
  return counts
}

function historySection(page: Page, snapshot: Snapshot, site: SiteState, { grid }: SiteData): Html {
  const { m, f } = page
  const facts = getSiteFacts(site)
  const { all } = countProbes(grid)
  const figures = { all: facts.availability30d, peak: facts.availabilityPeak30d }
  return section(
    'availability',
    m.sitePage.last30,
    html`<h3>${m.site.availability}</h3>
${availabilityChart(page, site.name, grid, snapshot.generatedAtSec, figures)}
${stripKey(page)}
${moreTable(page, [availabilityTable(page, grid), hoursBelowTable(page, grid)])}
<h3 class="space-top">${m.sitePage.latency} <span class="muted light">${m.sitePage.latencyUnit}</span></h3>${latencyChart(page, grid)}
${moreTable(page, latencyTable(page, grid))}
<p class="small muted">${m.charts.latencyNote}</p>`,
    html`<p>${m.sitePage.counted(f, all)}</p>`,
  )
}

function incidentsSection(page: Page, { incidents: { incidents } }: SiteData): Html {
  const { m } = page
  const { began, lasted, noIncidents, open, ended, everywhere, bothRegions } = m.sitePage
  if (incidents.length === 0)
    return section('incidents', m.sitePage.incidents, html`<p class="muted">${noIncidents}</p>`)
  const rows = mergeRegions(incidents)
    .slice(0, INCIDENTS_SHOWN_MAX)
    .map(({ started_at, ended_at, duration_s, region, cause }) => {
      const where = region === 'both' ? bothRegions : region === 'all' ? everywhere : m.codes.place[region]
      const state = ended_at === null ? html`<span class="status status-down">${open}</span>` : ended
      return html`<tr><th scope="row">${dateTimeTag(Date.parse(started_at) / 1_000)}<span class="sub">${where}</span></th><td>${m.codes.errors[cause as ErrorCode] ?? cause}</td><td class="num">${describeDuration(page, duration_s)}<span class="sub">${state}</span></td></tr>`
    })
  return section(
    'incidents',
    m.sitePage.incidents,
    html`<table class="table table-tight"><thead><tr><th scope="col">${began}</th><th scope="col">${m.charts.cause}</th><th scope="col" class="num">${lasted}</th></tr></thead><tbody>${rows}</tbody></table>`,
  )
}

type Incident = SiteData['incidents']['incidents'][number]
type ShownIncident = Omit<Incident, 'region'> & { region: Incident['region'] | 'both' }

/** What began and ended in both regions in the same minutes with the same cause is shown once. */
export function mergeRegions(incidents: readonly Incident[]): ShownIncident[] {
  const merged = new Map<string, ShownIncident>()
  for (const incident of incidents) {
    const { started_at, ended_at, cause, region } = incident
    const key = [started_at.slice(0, MINUTE_CHARS), ended_at?.slice(0, MINUTE_CHARS), cause].join(' ')
    const known = merged.get(key)
    const isOther = known && [known.region, region].sort().join(' ') === 'cn overseas'
    if (known && !isOther) merged.set(`${key} ${incident.id}`, incident)
    else merged.set(key, known ? { ...known, region: 'both' } : incident)
  }
  return [...merged.values()]
}

const MINUTE_CHARS = 'yyyy-mm-ddThh:mm'.length
const INCIDENTS_SHOWN_MAX = 20 // all are at /api/v1/sites/{slug}/incidents

/** The policy of the pages loads pictures from their own origin only, which need not be that of PUBLIC_BASE_URL. */
function toPath(url: string): string {
  return url.startsWith('/') ? url : new URL(url).pathname
}

function screenshotSection(
  page: Page,
  { supportEmail }: SiteContext,
  site: SiteState,
  { detail, screenshotAtSec }: SiteData,
  isPictureDue: boolean,
): Html {
  const { m } = page
  const { screenshot_url: url } = detail
  const alt = m.sitePage.screenshotAlt(site.name, screenshotAtSec === null ? '' : toDate(screenshotAtSec))
  const picture =
    url === null
      ? html`<p class="muted">${m.sitePage.noScreenshot}</p>`
      : html`<figure class="screenshot"><img src="${toPath(url)}" alt="${alt}" width="1280" height="800" loading="lazy"><figcaption class="small muted">${m.sitePage.screenshotTaken}${screenshotAtSec !== null && html` ${dateTag(screenshotAtSec)}`}</figcaption></figure>`
  const links = [
    html`<a href="/api/v1/sites/${site.slug}">${m.sitePage.json}</a>`,
    html`<a href="/badge/${site.slug}.svg">${m.sitePage.badge}</a>`,
    supportEmail !== '' && mistakeLink(page, supportEmail, site.name),
  ]
  const actions = html`<div class="actions" id="report">${links}</div>`
  if (url === null && !isPictureDue) return html`<div>${actions}</div>`
  return section('screenshot', m.sitePage.screenshot, [picture, actions])
}
