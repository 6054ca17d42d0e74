/** One sentence: why a site has its tier. The first rule that applies decides, the most serious first. */
import { getSiteFacts, isCapped } from '../../api/site-facts.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { countCauses } from '../charts/causes.ts'
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
  const failing = describeFailing(page, generatedAtSec, site, data)
  if (failing !== null) return failing
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
  const loses = why.loses(m.codes.components[worst.key], f.decimal(worst.lost))
  const [cause] = worst.key === 'availability' ? countCauses(data.grid.days) : []
  return cause === undefined
    ? loses
    : loses + m.frame.gap + why.mostFrequent(m.codes.errors[cause[0]] ?? cause[0])
}

/** For how long, and from where: a site that one region reaches has answered. Null without an open incident. */
function describeFailing(page: Page, nowSec: number, site: SiteState, data: SiteData): string | null {
  const { m } = page
  const { why } = m.sitePage
  if (site.state !== 'down') return null
  const open = data.incidents.incidents.filter(({ ended_at }) => ended_at === null)
  const describeSince = (startedAt: string) => describeDuration(page, nowSec - Date.parse(startedAt) / 1_000)
  const { cn, overseas } = site.regions
  const reached = cn.state === 'reachable' ? 'cn' : overseas.state === 'reachable' ? 'overseas' : null
  if (reached !== null) {
    const failed = reached === 'cn' ? 'overseas' : 'cn'
    const incident = open.find(({ region }) => region === failed)
    if (!incident || site.regions[failed].state !== 'unreachable') return null
    const { [failed]: where, [reached]: other } = m.list.seenFrom
    return why.downFrom(where, describeSince(incident.started_at), other)
  }
  if (open.length === 0) return null
  const last = open.reduce((a, b) => (b.started_at > a.started_at ? b : a)) // since when every region fails
  const duration = describeSince(last.started_at)
  return open.every(({ cause }) => cause === 'parked') ? why.parked(duration) : why.down(duration)
}

export function describeDuration({ m, f }: Page, seconds: number): string {
  return toDuration(seconds)
    .map(([count, unit]) => `${f.number(count)} ${m.sitePage.unit[unit]}`)
    .join(' ')
}
