/** When a picture is due: pure arithmetic on rows and time. */
import { expect, test } from 'vitest'
import { countTries, dueSinceSec, TRIES_MAX, toMonth } from '../../../monitor/screenshots/schedule.ts'

const DAY_SEC = 86_400
const at = (text: string) => Date.parse(text) / 1_000
const NOVEMBER = at('2026-11-01T00:00:00Z')
const old = { hasPicture: true, isTaken: false, errors: null, triedAtSec: null } // of last month
const none = { hasPicture: false, isTaken: false, errors: null, triedAtSec: null }

/** The first second of November at which a site is due, by days; null = never. */
function firstDueSec(slug: string, state: typeof old | null): number | null {
  for (let sec = NOVEMBER; sec < NOVEMBER + 30 * DAY_SEC; sec += 600) {
    const due = dueSinceSec(slug, state, sec)
    if (due !== null) return due
  }
  return null
}

test('M8.3#1: sites with a picture are spread over days 1 to 5, each at the same time every month', () => {
  const days = new Map<number, number>()
  for (let i = 0; i < 1_000; i++) {
    const sec = firstDueSec(`site-${i}`, old)!
    const day = Math.floor((sec - NOVEMBER) / DAY_SEC) + 1
    days.set(day, (days.get(day) ?? 0) + 1)
    if (i < 20) {
      const december = at('2026-12-01T00:00:00Z')
      expect(dueSinceSec(`site-${i}`, old, december + sec - NOVEMBER)).toBe(december + sec - NOVEMBER)
      expect(dueSinceSec(`site-${i}`, old, december + sec - NOVEMBER - 1)).toBeNull()
    }
  }
  expect([...days.keys()].sort()).toEqual([1, 2, 3, 4, 5])
  for (const count of days.values()) expect(count).toBeGreaterThan(140)
})

test('M8.3#1: a site without a picture is due at once, on any day', () => {
  for (const state of [null, none]) {
    for (const day of [0, 6, 15, 29]) {
      const nowSec = NOVEMBER + day * DAY_SEC + 5
      expect(dueSinceSec('a', state, nowSec)).toBeLessThanOrEqual(nowSec)
    }
  }
})

// biome-ignore format: a table
const tries = [
  // errors of this month, days since the last, has an older picture, now → due
  ['timeout',                       0.9, false, '2026-11-20T00:00:00Z', false],
  ['timeout',                       1,   false, '2026-11-20T00:00:00Z', true],
  ['timeout,unreachable',           1,   false, '2026-11-20T00:00:00Z', true],
  ['timeout,unreachable,timeout',   9,   false, '2026-11-20T00:00:00Z', false],
  ['timeout',                       1,   true,  '2026-11-06T23:00:00Z', true],
  ['timeout',                       1,   true,  '2026-11-08T00:00:00Z', false], // its window is over
  [null,                            0,   true,  '2026-11-06T00:00:00Z', true],  // the monitor did not run on days 1 to 5
  [null,                            0,   true,  '2026-11-20T00:00:00Z', false],
] as const
for (const [errors, days, hasPicture, now, isDue] of tries) {
  test(`M8.3#1: after ${errors ?? 'no try'}, ${days} days ago, at ${now}: ${isDue ? 'due' : 'not due'}`, () => {
    const triedAtSec = errors === null ? null : at(now) - days * DAY_SEC
    const state = { hasPicture, isTaken: false, errors, triedAtSec }
    expect(dueSinceSec('a', state, at(now)) !== null).toBe(isDue)
  })
}

test('a month with a picture is done; the next one is not', () => {
  expect(dueSinceSec('a', { ...old, isTaken: true }, NOVEMBER + 5 * DAY_SEC)).toBeNull()
  expect(toMonth(NOVEMBER - 1)).toBe('2026-10')
  expect(toMonth(NOVEMBER)).toBe('2026-11')
})

test('tries are counted by their reasons', () => {
  expect([null, '', 'a', 'a,b'].map(countTries)).toEqual([0, 0, 1, 2])
  expect(TRIES_MAX).toBe(3)
})
