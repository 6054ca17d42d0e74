/** One site's life, pass by pass, from the first probe to the second spring. */
import { expect, test } from 'vitest'
import { DAY_SEC, INTERVAL_SEC, openWorld } from './world.ts'

test('7: new, proven, down for four days, up again', async () => {
  const world = await openWorld('site', 'other')
  const moment = () => [world.state('site'), world.tier('site'), world.board('red'), world.board('black')]

  world.pass()
  expect(world.snapshot().sites).toEqual([]) // no finished probe yet
  world.probed('site')
  world.observed('site')
  world.pass()
  expect(moment()).toEqual(['reachable', 'B', [], []]) // provisional
  world.liveHours(71, 'up', 'site')
  world.observed('site')
  expect(world.tier('site')).toBe('B')
  world.liveHours(1, 'up', 'site')
  expect(world.tier('site')).toBe('S')
  world.liveHours(4 * 24, 'up', 'site')
  world.observed('site')
  world.pass()
  expect(moment()).toEqual(['reachable', 'S', ['site'], []])

  // Down: 2 of the 3 newest say so, and then once more.
  const lastGoodSec = world.nowSec
  world.live(1, 'tls_reset', 'site')
  expect(world.state('site')).toBe('reachable')
  world.live(1, 'connect_timeout', 'site')
  expect([world.state('site'), world.incidents('site')]).toEqual(['reachable…', []])
  expect(world.board('red')).toEqual(['site'])
  world.live(1, 'connect_timeout', 'site')
  expect([world.state('site'), world.board('red')]).toEqual(['unreachable', []])
  const warnedDaySec = world.nowSec - (world.nowSec % DAY_SEC)
  const open = {
    region: 'overseas',
    startedAtSec: lastGoodSec + INTERVAL_SEC,
    endedAtSec: null,
    cause: 'connect_timeout',
    vantages: 1,
  }
  expect(world.incidents('site')).toEqual([open])
  expect(world.snapshot().boards.black).toMatchObject([{ slug: 'site', reasons: ['unreachable_everywhere'] }])

  // Its tier falls with its availability: below 0.95 of 7 days after 9 h, 0.90 after 17 h, 0.70 after 51 h.
  world.liveHours(16, 'connect_timeout', 'site')
  expect(['B', 'C']).toContain(world.tier('site'))
  world.liveHours(9, 'connect_timeout', 'site')
  expect(world.snapshot().boards.black).toMatchObject([
    { rank: 1, reasons: ['down_24h', 'availability_low', 'unreachable_everywhere'] },
  ])
  world.liveHours(3 * 24, 'connect_timeout', 'site')
  expect(moment()).toEqual(['unreachable', 'D', [], ['site']])
  const [warned] = world.snapshot().boards.black
  expect(warned.reasons.slice(0, 2)).toEqual(['down_72h', 'tier_d'])
  expect(warned).toMatchObject({ rankBefore: 1, sinceSec: warnedDaySec })
  expect(world.incidents('site')).toEqual([open])

  // Back: the incident ends with the first good probe, the tier comes slowly.
  const backSec = world.nowSec + INTERVAL_SEC
  world.live(2, 'up', 'site')
  expect([world.state('site'), world.incidents('site')]).toEqual(['unreachable…', [open]])
  world.live(1, 'up', 'site')
  expect(world.state('site')).toBe('reachable')
  expect(world.incidents('site')).toEqual([{ ...open, endedAtSec: backSec }])
  expect(world.tier('site')).toBe('D')
  world.liveHours(8 * 24, 'up', 'site')
  expect(world.board('black')).toEqual([])
  expect(world.incidents('site')).toEqual([{ ...open, endedAtSec: backSec }])
})

test('7.2: within a point of its border a tier waits: 6 h to fall, 24 h to rise', async () => {
  const world = await openWorld('site')
  const names = Array.from({ length: 50 }, (_, i) => `model-${i}`)
  const listed = (count: number) => world.observed('site', { claimed: names, models: names.slice(0, count) })
  const score = () => world.reader.scores()[0].score
  world.liveHours(73, 'up', 'site')
  listed(31)
  world.liveHours(1, 'up', 'site')
  expect([world.tier('site'), score()]).toEqual(['S', expect.closeTo(92.4)])
  listed(29)
  world.live(1, 'up', 'site')
  expect([world.tier('site'), score()]).toEqual(['S', expect.closeTo(91.6)])
  world.live(71, 'up', 'site')
  expect(world.tier('site')).toBe('S')
  world.live(1, 'up', 'site')
  expect(world.tier('site')).toBe('A')
  expect(world.reader.scores()[0].tierSinceSec).toBe(world.nowSec)
  listed(31)
  world.liveHours(24, 'up', 'site')
  expect([world.tier('site'), score()]).toEqual(['A', expect.closeTo(92.4)])
  world.liveHours(1, 'up', 'site')
  expect(world.tier('site')).toBe('S')
})
