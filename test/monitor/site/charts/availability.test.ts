/** The hours of the availability chart as a table. */
import { expect, test } from 'vitest'
import type { ProbePoint } from '../../../../monitor/scoring/probe-point.ts'
import { hoursBelowTable } from '../../../../monitor/site/charts/availability.ts'
import { toDayGrid } from '../../../../monitor/site/charts/days.ts'
import { createPage } from '../../../../monitor/site/page.ts'

const NOW_SEC = Date.parse('2026-11-22T12:00:00Z') / 1_000
const page = createPage('en', false)

function hour(at: string, availability: number): ProbePoint {
  const down = Math.round(12 * (1 - availability))
  return {
    at,
    window_s: 3_600,
    probes: 12,
    up: 12 - down,
    degraded: 0,
    down,
    availability,
    latency_ms: null,
    http_status: null,
    errors: down > 0 ? { http_5xx: down } : {},
  } as unknown as ProbePoint
}

const rows = (hours: ProbePoint[]) =>
  [...String(hoursBelowTable(page, toDayGrid([], hours, NOW_SEC))).matchAll(/datetime="([^"]+)"/g)].map(
    ([, at]) => at,
  )

test('lists hours below 100 %, newest first', () => {
  const hours = [
    hour('2026-11-20T01:00:00Z', 0.5),
    hour('2026-11-21T02:00:00Z', 1),
    hour('2026-11-22T03:00:00Z', 0.75),
  ]
  expect(rows(hours)).toEqual(['2026-11-22T03:00:00Z', '2026-11-20T01:00:00Z'])
  expect(String(hoursBelowTable(page, toDayGrid([], hours, NOW_SEC)))).toContain(
    '<td class="num">75.00%</td><td class="num">12</td><td>Server error (HTTP 5xx): 3</td>',
  )
})

test('no table when all hours are whole, and at most 200 rows', () => {
  expect(hoursBelowTable(page, toDayGrid([], [hour('2026-11-21T02:00:00Z', 1)], NOW_SEC))).toBe(null)
  const all = Array.from({ length: 700 }, (_, i) =>
    hour(`${new Date((NOW_SEC - i * 3_600) * 1_000).toISOString().slice(0, 19)}Z`, 0),
  )
  expect(rows(all)).toHaveLength(200)
  expect(rows(all)[0]).toBe('2026-11-22T12:00:00Z')
})

test('an hour with degraded probes only is below 100 %, too', () => {
  const degraded = {
    ...hour('2026-11-21T02:00:00Z', 0.7),
    up: 0,
    degraded: 12,
    down: 0,
    errors: { slow: 12 },
  }
  const table = String(hoursBelowTable(page, toDayGrid([], [degraded as ProbePoint], NOW_SEC)))
  expect(table).toContain('<td class="num">70.00%</td><td class="num">12</td>')
  expect(table).toContain('Slow: more than 3 s to the first byte: 12')
})
