/** The state of each region: what was seen, by how many, and whether the site or the route is at fault. */

import { measuredRegions } from '../../api/measured-regions.ts'
import type { Region } from '../../facts.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { around, regionLabel, timeTag } from '../components.ts'
import { toTime } from '../format.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

const REGIONS: readonly Region[] = ['cn', 'overseas']

export function regionStates(page: Page, snapshot: Snapshot, site: SiteState): Html {
  const measured = measuredRegions(snapshot)
  return html`<div class="regions">${REGIONS.map((region) => {
    const state = site.regions[region]
    const isUnknown = state.state === 'unknown'
    return html`<div class="region${isUnknown && ' region-none'}"><h3>${page.m.codes.from[region]}</h3>${regionLabel(page, state.state)}<p>${
      isUnknown ? unknownText(page, measured.includes(region)) : knownText(page, site, region, measured)
    }</p></div>`
  })}</div>`
}

function unknownText({ m }: Page, isMeasured: boolean): string {
  return isMeasured ? m.sitePage.unknownRegion : m.sitePage.noVantage
}

function knownText(page: Page, site: SiteState, region: Region, measured: readonly Region[]): Content {
  const { m, f } = page
  const state = site.regions[region]
  const { vantages, agreeing, checkedAtSec, blocking } = state
  const isReached = state.state === 'reachable'
  const count = isReached ? m.sitePage.vantagesReached : m.sitePage.vantagesFailed
  const checked =
    checkedAtSec !== null &&
    html`${m.charts.separator}${around(m.sitePage.checkedAt(toTime(checkedAtSec)), toTime(checkedAtSec), timeTag(checkedAtSec))}`
  const found = html`${count(f, agreeing, vantages)}${checked}${m.sitePage.stop}`
  if (isReached) return found
  const kind =
    blocking !== 'none' && blocking !== 'unknown' && html`<b>${m.codes.blocking[blocking]}</b>${m.frame.gap}`
  return html`${kind}${found}${m.frame.gap}${explainOther(page, site, region, measured)}`
}

function explainOther({ m }: Page, site: SiteState, region: Region, measured: readonly Region[]): string {
  const other = region === 'cn' ? 'overseas' : 'cn'
  const { state } = site.regions[other]
  if (state === 'unknown') return measured.includes(other) ? '' : m.sitePage.oneVantage
  return state === 'reachable' ? m.sitePage.otherReaches(m.list.seenFrom[other]) : m.sitePage.bothFail
}
