/** Models of a site in three groups: claimed and listed, claimed only, listed only; and both counts over time. */
import { getSiteFacts } from '../../api/site-facts.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { modelsChart } from '../charts/models-over-time.ts'
import { isListUnread, section } from '../components.ts'
import { glyph } from '../glyphs.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'
import type { SiteData } from './site-data.ts'

const SEARCH_MIN = 8 // fewer are seen at a glance
const SHOWN_MAX = 30 // of each group; more are behind a disclosure
const ON_PAGE_MAX = 300 // of each group; more are in the API: a hostile listing of 10,000 names would make a page of 6 MB

export function modelsSection(
  page: Page,
  snapshot: Snapshot,
  site: SiteState,
  { models, detail }: SiteData,
): Html {
  const { m, f } = page
  const texts = m.sitePage
  const note = html`<p>${texts.listedMeans}</p>`
  const now = models.models.filter(({ claimed, verified }) => claimed || verified)
  if (now.length === 0)
    return section('models', texts.models, html`<p class="muted">${texts.noModels}</p>`, note)
  const both = now.filter(({ claimed, verified }) => claimed && verified)
  const claimedOnly = now.filter(({ claimed, verified }) => claimed && !verified)
  const listedOnly = now.filter(({ claimed, verified }) => !claimed && verified)
  const unread = isListUnread(site)
  const group = (kind: string, mark: Html, heading: string, text: string, ids: readonly { id: string }[]) =>
    html`<div${kind !== '' && html` class="${kind}"`}><h3>${mark}${heading} <span class="group-count">${f.number(ids.length)}</span></h3><p>${ids.length === 0 ? texts.none : text}</p>${modelList(page, site, ids)}</div>`
  const mark = (kind: string, name: Parameters<typeof glyph>[0]) =>
    html`<span class="status status-${kind}">${glyph(name)}</span>`
  const chart = modelsChart(
    page,
    {
      listed: detail.model_list_verified.length,
      claimed: getSiteFacts(site).modelsClaimed,
      changes: models.changes,
      firstSec: Date.parse(site.firstSeen) / 1_000,
    },
    snapshot.generatedAtSec,
  )
  return section(
    'models',
    texts.models,
    html`${search(page, now.length)}<div class="models">${[
      group('', mark('up', 'reachable'), texts.claimedAndListed, texts.claimHolds, both),
      unread
        ? group('wide', mark('unknown', 'unknown'), texts.claimedUnread, texts.unreadMeans, claimedOnly)
        : group('wide', mark('degraded', 'degraded'), texts.claimedOnly, texts.advertised, claimedOnly),
      group('', mark('unknown', 'info'), texts.listedOnly, texts.notAdvertised, listedOnly),
    ]}</div>${models.changes.length > 0 && html`<h3 class="space-top">${m.charts.modelsTitle}</h3>${chart}`}`,
    note,
  )
}

/** Shown by assets/models.js, which does the work. */
function search({ m }: Page, count: number): Content {
  if (count < SEARCH_MIN) return null
  return html`<div class="field find-model" hidden><label for="find-model">${m.sitePage.findModel}</label><input id="find-model" type="search" maxlength="128" autocomplete="off" spellcheck="false"><span class="small muted" id="models-found" aria-live="polite" data-text="${m.sitePage.modelsFound}"></span></div>`
}

function modelList({ m, f }: Page, { slug }: SiteState, models: readonly { id: string }[]): Content {
  if (models.length === 0) return null
  const list = (ids: readonly { id: string }[]) =>
    html`<ul>${ids.map(({ id }) => html`<li><bdi>${id}</bdi></li>`)}</ul>`
  if (models.length <= SHOWN_MAX) return list(models)
  const count = Math.min(models.length, ON_PAGE_MAX)
  const rest = models.length - count
  return html`${list(models.slice(0, SHOWN_MAX))}<details class="more"><summary>${m.sitePage.more(f, count)}</summary>${list(models.slice(SHOWN_MAX, count))}</details>${rest > 0 && html`<p><a href="/api/v1/sites/${slug}/models">${m.sitePage.notShown(f, rest)}</a></p>`}`
}
