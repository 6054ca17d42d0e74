import { expect, test } from 'vitest'
import { DAY_SEC, NOW_SEC, openWorld, type World } from './world.ts'

const TODAY_SEC = NOW_SEC - (NOW_SEC % DAY_SEC)
const SCAM = { flags: ['scam' as const] }

test('8.2: boards are per day; a site that stays keeps its first day, one that returns gets a new one', async () => {
  const world = await openWorld({ slug: 'one', ...SCAM }, { slug: 'two', ...SCAM })
  for (const slug of ['one', 'two']) world.probed(slug)
  world.pass()
  expect(entries(world)).toEqual(['one 1 null 0', 'two 2 null 0'])
  world.nowSec += DAY_SEC
  world.list([{ slug: 'one' }, { slug: 'two', ...SCAM }])
  world.pass()
  expect(entries(world)).toEqual(['two 1 2 0'])
  world.nowSec += DAY_SEC
  world.list([
    { slug: 'one', ...SCAM },
    { slug: 'two', ...SCAM },
  ])
  world.pass()
  expect(entries(world)).toEqual(['one 1 null 2', 'two 2 1 0'])
  expect(world.reader.board('black', TODAY_SEC).map(({ rank }) => rank)).toEqual([1, 2]) // that day is not touched
})

test('8.2: days without a pass do not make anybody new', async () => {
  const world = await openWorld({ slug: 'one', ...SCAM })
  world.probed('one')
  world.pass()
  world.nowSec += 3 * DAY_SEC
  world.pass()
  expect(entries(world)).toEqual(['one 1 null 0'])
})

test('3.3: an empty board does not fall back to the entries of an earlier day', async () => {
  const world = await openWorld({ slug: 'one', ...SCAM })
  world.probed('one')
  world.pass()
  world.nowSec += DAY_SEC
  world.list([{ slug: 'one' }])
  world.pass()
  expect(entries(world)).toEqual([])
  world.nowSec += DAY_SEC
  world.list([{ slug: 'one', ...SCAM }])
  world.pass()
  expect(entries(world)).toEqual(['one 1 null 2'])
})

test('7.3: a site whose probes stopped leaves the red board after 3 of its own intervals', async () => {
  const world = await openWorld({ slug: 'slow', intervalSec: 3_600 }, 'fast')
  world.liveHours(8 * 24, 'up', 'slow', 'fast')
  expect(world.board('red')).toEqual(['fast', 'slow'])
  world.nowSec += 1_000
  world.pass()
  expect(world.board('red')).toEqual(['slow'])
})

/** Slug, rank, rank the day before, day it came on (0 = the first). */
function entries(world: World): string[] {
  const { black } = world.snapshot().boards
  return black.map(({ slug, rank, rankBefore, sinceSec }) => {
    return `${slug} ${rank} ${rankBefore} ${(sinceSec - TODAY_SEC) / DAY_SEC}`
  })
}
