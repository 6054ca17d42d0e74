/** The plain pages behind links: what they say of the method is what the code does. */
import { describe, expect, test } from 'vitest'
import { CAPS, TIERS, toTier } from '../../../monitor/scoring/tier.ts'
import { METHODOLOGY_PATH, PROBE_PATH, plainPages } from '../../../monitor/site/plain-pages.ts'

const OPTIONS = { intervalSec: 300, userAgent: 'RelayMonitor/1', supportEmail: 'help@example.org' }

describe('11: /methodology', () => {
  const text = plainPages(OPTIONS)[METHODOLOGY_PATH]

  test('names the formula, its weights and every cap', () => {
    expect(text).toContain('Formula score-1')
    const weights = [...text.matchAll(/^ {2}(\w+) +(\d+)$/gm)].map(([, , weight]) => Number(weight))
    expect(weights.reduce((sum, weight) => sum + weight)).toBe(100)
    for (const [code, tier] of Object.entries(CAPS))
      expect(text).toMatch(new RegExp(`^ {2}${code} +${tier}$`, 'm'))
  })

  test('names the borders that the code has', () => {
    const borders = [...text.matchAll(/([SABC]) from (\d+)/g)].map(([, tier, from]) => [tier, Number(from)])
    expect(borders).toHaveLength(TIERS.length - 1)
    for (const [tier, from] of borders as [string, number][]) {
      expect(toTier(from)).toBe(tier)
      expect(toTier(from - 0.1)).not.toBe(tier)
    }
  })
})

test('11: /about/probe names the user agent, the frequency and the opt-out', () => {
  const text = plainPages(OPTIONS)[PROBE_PATH]
  for (const part of [
    'User-Agent: RelayMonitor/1',
    'every 300 s',
    'every 6 hours',
    'opt out',
    OPTIONS.supportEmail,
  ])
    expect(text).toContain(part)
  expect(plainPages({ ...OPTIONS, supportEmail: '' })[PROBE_PATH]).not.toContain('@')
})
