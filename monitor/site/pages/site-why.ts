/** One sentence: why a site has its tier. The first rule that applies decides, the most serious first. */
import { getSiteFacts, isCapped } from '../../api/site-facts.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { toRows } from '../charts/waterfall.ts'
import { toDuration } from '../format.ts'
import type { Page } from '../page.ts'
import type { SiteData } from './site-data.ts'

const POINTS_MIN = 3 // a component that costs less is not worth naming

export function explainTier(page: Page, snapshot: Snapshot, site: SiteState, data: SiteData): string {
  const { m, language } = page
  const tier = language === 'en' ? `${m.site.tier} ${site.tier}: ` : `${site.tier} 级：`
  return tier + reason(page, snapshot, site, data)
}

function reason(page: Page, { generatedAtSec }: Snapshot, site: SiteState, data: SiteData): string {
  const { m, f } = page
  const { why } = m.sitePage
  const facts = getSiteFacts(site)
  const codes = facts.caps.map(({ code }) => code)
  if (codes.includes('flag')) return why.flag
  const open = data.incidents.incidents.find(({ ended_at }) => ended_at === null)
  if (open && site.state === 'down') {
    const duration = describeDuration(page, generatedAtSec - Date.parse(open.started_at) / 1_000)
    return open.cause === 'parked' ? why.parked(duration) : why.down(duration)
  }
  if (facts.isProvisional && site.tier === 'B' && site.state === 'up') {
    return why.provisional(m.sitePage.days(f, facts.days.filter((day) => day !== null).length))
  }
  if (isCapped(site)) {
    const strictest = facts.caps.findLast(({ maxTier }) => maxTier === site.tier) ?? facts.caps[0]
    return why.capped(m.codes.caps[strictest.code] ?? strictest.code)
  }
  const worst = toRows(facts.components)
    .map(({ component, max, points }) => ({ key: component.key, lost: points === null ? 0 : max - points }))
    .sort((a, b) => b.lost - a.lost)[0]
  if (worst === undefined || worst.lost < POINTS_MIN) return why.good
  if (worst.key === 'models' && facts.modelsClaimed > 0) {
    const missing = data.models.models.filter(({ claimed, verified }) => claimed && !verified).length
    return why.models(f, missing, facts.modelsClaimed, f.decimal(worst.lost))
  }
  return why.loses(m.codes.components[worst.key], f.decimal(worst.lost))
}

export function describeDuration({ m, f }: Page, seconds: number): string {
  return toDuration(seconds)
    .map(([count, unit]) => `${f.number(count)} ${m.sitePage.unit[unit]}`)
    .join(' ')
}
