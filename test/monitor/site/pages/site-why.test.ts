/** One sentence about a site that is down: for how long, and from where. */
import { describe, expect, test } from 'vitest'
import type { SiteFacts } from '../../../../monitor/api/site-facts.ts'
import type { RegionState } from '../../../../monitor/facts.ts'
import { createPage } from '../../../../monitor/site/page.ts'
import type { SiteData } from '../../../../monitor/site/pages/site-data.ts'
import { explainTier } from '../../../../monitor/site/pages/site-why.ts'
import { createSnapshot, NOON, SITES, site } from '../../api/fake-store.ts'

const DAY_SEC = 86_400
const en = createPage('en', false)
const zh = createPage('zh-CN', false)

type State = RegionState['state']
type Incident = [region: 'cn' | 'overseas' | 'all', days: number, cause: string]

function explain(page: typeof en, cn: State, overseas: State, incidents: Incident[]): string {
  const { regions } = SITES[0]
  const down = site(1, 'down', {
    state: 'down',
    tier: 'C',
    regions: { cn: { ...regions.cn, state: cn }, overseas: { ...regions.overseas, state: overseas } },
  })
  const toTime = (days: number) => `${new Date((NOON - days * DAY_SEC) * 1_000).toISOString().slice(0, 19)}Z`
  const data = {
    incidents: {
      incidents: incidents.map(([region, days, cause]) => ({
        region,
        cause,
        started_at: toTime(days),
        ended_at: null,
      })),
    },
    grid: { startSec: 0, days: [], hours: [] },
    models: { models: [], changes: [] },
  } as unknown as SiteData
  return explainTier(page, createSnapshot(), down, data)
}

describe('M11#2: why a site that is down has its tier', () => {
  // biome-ignore format: a table
  test.each<[State, State, Incident[], string, string]>([
    ['unreachable', 'unreachable', [['all', 8, 'connect_timeout']], 'no usable answer for 8 d.', '已有 8 天没有可用应答。'],
    ['unknown', 'unreachable', [['overseas', 8, 'http_5xx']], 'no usable answer for 8 d.', '已有 8 天没有可用应答。'],
    ['unreachable', 'unreachable', [['cn', 9, 'tls_reset'], ['overseas', 2, 'http_5xx']], 'no usable answer for 2 d.', '已有 2 天没有可用应答。'],
    ['unreachable', 'reachable', [['cn', 8, 'tls_reset']], 'not reachable from China for 8 d, reachable from overseas.', '已有 8 天无法从中国到达，从海外可达。'],
    ['reachable', 'unreachable', [['overseas', 3, 'http_5xx']], 'not reachable from overseas for 3 d, reachable from China.', '已有 3 天无法从海外到达，从中国可达。'],
    ['unknown', 'unreachable', [['overseas', 5, 'parked']], 'nothing but a parked domain has answered for 5 d.', '已有 5 天只返回停放页面。'],
  ])('China %s, overseas %s, %j', (cn, overseas, incidents, english, chinese) => {
    expect(explain(en, cn, overseas, incidents)).toBe(`Tier C: ${english}`)
    expect(explain(zh, cn, overseas, incidents)).toBe(`C 级：${chinese}`)
  })

  test('a loss of availability names its most frequent cause', () => {
    const errors = { http_5xx: 3, slow: 40 }
    const data = {
      incidents: { incidents: [] },
      grid: { startSec: 0, days: [null, { errors }], hours: [] },
      models: { models: [], changes: [] },
    } as unknown as SiteData
    const components = [{ key: 'availability', weight: 40, value: 0.5, inputs: {} }]
    const facts = { ...(SITES[0].facts as SiteFacts), caps: [], components }
    const slow = site(1, 'slow', { tier: 'C', score: 50, facts })
    const why = (page: typeof en) => explainTier(page, createSnapshot(), slow, data)
    expect(why(en)).toBe(
      'Tier C: it loses most on availability: 50.0 points. Most frequent cause: Slow: more than 3 s to the first byte.',
    )
    expect(why(zh)).toBe('C 级：主要扣分项为可用率：扣 50.0 分。最常见的原因：缓慢：首字节时间超过 3 秒。')
  })

  test('without an open incident nothing is said about its length', () => {
    expect(explain(en, 'unknown', 'unreachable', [])).not.toMatch(/for \d/)
  })
})
