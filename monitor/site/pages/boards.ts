/** `/leaderboard`: who leads, who is warned of, on which evidence, and how to appeal. */

import { findUnmeasured, measuredRegions } from '../../api/measured-regions.ts'
import { getSiteFacts } from '../../api/site-facts.ts'
import { siteIndex } from '../../api/site-index.ts'
import { getStatus } from '../../api/site-view.ts'
import type { BlackReason } from '../../scoring/boards.ts'
import { displayScore } from '../../scoring/score.ts'
import { toTier } from '../../scoring/tier.ts'
import type { BoardEntry, SiteState, Snapshot } from '../../storage/snapshot.ts'
import {
  dateTag,
  describeSample,
  mistakeLink,
  notice,
  percentOr,
  statusLabel,
  tierBadge,
} from '../components.ts'
import { frame, type SiteContext } from '../frame.ts'
import { glyph } from '../glyphs.ts'
import { type Content, type Html, html } from '../html.ts'
import { href, type Page } from '../page.ts'

type Board = 'red' | 'black'
export const BOARD_MAX: Record<Board, number> = { red: 100, black: 100 }

export function boardsPage(page: Page, context: SiteContext, snapshot: Snapshot): Html {
  const { m } = page
  return frame(
    page,
    context,
    {
      title: m.boards.title,
      path: '/leaderboard',
      generatedAtSec: snapshot.generatedAtSec,
      description: m.boards.lead,
    },
    html`<div class="page-head"><h1>${m.boards.heading}</h1><p class="lead">${m.boards.lead}</p></div>
<nav class="anchors" aria-label="${m.sitePage.onThisPage}"><a href="#red">${m.boards.red}</a><a href="#black">${m.boards.black}</a><a href="#rules">${m.boards.rules}</a></nav>
<div class="boards">${board(page, context, snapshot, 'red')}
${board(page, context, snapshot, 'black')}</div>
${rules(page, snapshot)}`,
  )
}

function board(page: Page, context: SiteContext, snapshot: Snapshot, name: Board): Html {
  const { m, f } = page
  const sites = siteIndex(snapshot)
  const entries = snapshot.boards[name].filter(({ slug }) => sites.bySlug(slug))
  const isRed = name === 'red'
  const shown = entries.slice(0, BOARD_MAX[name])
  const empty = html`<p class="muted space-small">${isRed ? m.boards.redEmpty : m.boards.blackEmpty}</p>`
  const appeal = notice(
    'plain',
    'info',
    html`<p><b>${m.boards.appealTitle}</b>${m.frame.gap}${m.boards.appeal}${m.frame.gap}<a href="${href(page, '/about/probe')}#out">${m.method.probe.out}</a></p>`,
  )
  return html`<section class="board board-${name}" aria-labelledby="${name}"><div class="board-head"><h2 id="${name}">${glyph(isRed ? 'best' : 'stop')}${isRed ? m.boards.red : m.boards.black}</h2><span class="tag">${isRed ? m.boards.redTag(f, entries.length) : m.boards.blackTag(f, entries.length)}</span><p>${isRed ? m.boards.redRule : m.boards.blackRule}</p></div>${!isRed && appeal}${
    shown.length === 0
      ? empty
      : html`<ol>${shown.map((entry) => boardEntry(page, context, entry, sites.bySlug(entry.slug)!, name))}</ol>`
  }</section>`
}

function boardEntry(
  page: Page,
  { supportEmail }: SiteContext,
  entry: BoardEntry,
  site: SiteState,
  name: Board,
): Html {
  const { m, f } = page
  const facts = getSiteFacts(site)
  const to = href(page, `/sites/${site.slug}`)
  const percent = (ratio: number | null | undefined) => percentOr(page, ratio)
  const firstByte = facts.p50Ms === null ? '–' : `${f.number(facts.p50Ms)} ms`
  const hidden = html`<span class="visually-hidden">: ${site.name}</span>`
  const actions = html`<p class="actions"><a href="${to}">${m.boards.evidence}${hidden}</a>${supportEmail !== '' && mistakeLink(page, supportEmail, site.name, hidden)}</p>`
  return html`<li class="entry"><div class="rank">${f.number(entry.rank)}<small>${rankChange(page, entry)}</small></div><div><div class="entry-head">${tierBadge(page, site.tier)}<div><a class="name" href="${to}"><bdi>${site.name}</bdi></a><span class="sub">${new URL(site.url).host}</span></div>${statusLabel(page, getStatus(site))}</div>
<ul class="reasons">${entry.reasons.map((reason) => reasonItem(page, reason, site, name))}</ul>
<p class="figures"><span>${m.site.score} <b>${f.decimal(displayScore(site.score))}</b></span><span>${m.boards.week} <b>${percent(facts.availability7d)}</b></span><span>${m.boards.month} <b>${percent(facts.availability30d)}</b></span><span>${m.site.firstByte} <b>${firstByte}</b></span><span>${m.boards.since} ${dateTag(entry.sinceSec)}</span><span>${describeSample(page, site)}</span></p>
${name === 'black' && actions}</div></li>`
}

/** Nothing is shown when the rank is unchanged; readers of the screen hear it. */
function rankChange({ m }: Page, { rank, rankBefore }: BoardEntry): Content {
  if (rankBefore === null) return m.boards.isNew
  const change = rankBefore - rank
  if (change === 0) return html`<span class="visually-hidden">${m.boards.unchanged}</span>`
  const count = Math.abs(change)
  return html`<span aria-hidden="true">${change > 0 ? '▲' : '▼'}${count}</span><span class="visually-hidden">${change > 0 ? m.boards.up(count) : m.boards.down(count)}</span>`
}

function reasonItem(page: Page, reason: string, site: SiteState, name: Board): Html {
  const [kind, mark] = name === 'red' ? (['up', 'reachable'] as const) : (['down', 'down'] as const)
  const text = describeReason(page, reason, site, name)
  if (name === 'black' && reason === 'flag_scam') {
    const note = html`<span class="muted">(${page.m.boards.flagNoEvidence})</span>`
    return html`<li><span class="status status-${kind}">${glyph(mark)}</span><span>${text} ${note}</span></li>`
  }
  const anchor = EVIDENCE[reason as MeasuredReason]
  const content =
    name === 'black' && anchor !== undefined
      ? html`<a href="${href(page, `/sites/${site.slug}`)}#${anchor}">${text}</a>`
      : text
  return html`<li><span class="status status-${kind}">${glyph(mark)}</span>${content}</li>`
}

type MeasuredReason = Exclude<BlackReason, 'flag_scam'>

/** The section of the site's page that shows what a reason rests on; a flag rests on nothing that is shown. */
const EVIDENCE: Record<MeasuredReason, string> = {
  down_72h: 'incidents',
  parked: 'incidents',
  down_24h: 'incidents',
  tier_d: 'why',
  tls_invalid: 'network',
  models_missing: 'models',
  availability_low: 'availability',
  availability_drop: 'availability',
  unreachable_everywhere: 'reach',
}

export function describeReason({ m, f }: Page, reason: string, site: SiteState, name: Board): string {
  const facts = getSiteFacts(site)
  if (reason === 'models_missing' && facts.components.length > 0) {
    const ratio = facts.components.find(({ key }) => key === 'models')?.value ?? null
    const listed = ratio === null ? null : Math.round(ratio * facts.modelsClaimed)
    if (listed !== null) return m.boards.missingModels(f, facts.modelsClaimed - listed, facts.modelsClaimed)
  }
  if (reason === 'tier_d' && toTier(site.score) !== 'D') return m.boards.cappedToD
  const texts: Record<string, string> = name === 'red' ? m.codes.redReasons : m.codes.blackReasons
  return texts[reason] ?? reason
}

function rules(page: Page, snapshot: Snapshot): Html {
  const { m } = page
  const missing = findUnmeasured(measuredRegions(snapshot))
  const items = [...m.boards.rulesList, ...(missing === null ? [] : [m.boards.unmeasured[missing]])]
  return html`<section class="rules" aria-labelledby="rules"><h2 id="rules">${m.boards.rules}</h2><ul class="dash-list">${items.map((text) => html`<li><span>${text}</span></li>`)}</ul><p class="actions"><a href="${href(page, '/methodology')}">${m.boards.method}</a><a href="/api/v1/leaderboard?board=red">${m.boards.redJson}</a><a href="/api/v1/leaderboard?board=black">${m.boards.blackJson}</a></p></section>`
}
