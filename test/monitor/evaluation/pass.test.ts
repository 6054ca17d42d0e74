import { expect, test } from 'vitest'
import { getSiteFacts } from '../../../monitor/api/site-facts.ts'
import type { StoredEvaluation } from '../../../monitor/evaluation/site-evaluation.ts'
import type { ErrorCode, Outcome } from '../../../monitor/facts.ts'
import { DAY_SEC, INTERVAL_SEC, NOW_SEC, openWorld, type World } from './world.ts'

test('repeating a pass changes nothing, at any time', async () => {
  const world = await openWorld('site', 'steady', { slug: 'flagged', flags: ['scam'] })
  world.liveHours(8 * 24, 'up', 'site', 'steady', 'flagged')
  for (const slug of ['site', 'steady', 'flagged']) world.observed(slug)
  const life: (Outcome | ErrorCode)[] = [
    'up',
    'tls_reset',
    'tls_reset',
    'tls_reset',
    'http_5xx',
    'up',
    'up',
    'up',
    'up',
  ]
  const states: string[] = []
  for (const outcome of life) {
    world.nowSec += INTERVAL_SEC
    world.probed('site', outcome)
    world.probed('steady')
    world.pass()
    const once = world.dump()
    world.pass()
    world.pass({ siteIds: [world.ids.site] })
    expect(world.dump()).toEqual(once)
    states.push(`${world.state('site')} ${world.incidents('site').length}`)
  }
  expect(states).toEqual([
    'reachable 0',
    'reachable 0',
    'reachable… 0',
    'unreachable 1',
    'unreachable 1',
    'unreachable 1',
    'unreachable… 1',
    'reachable 1',
    'reachable 1',
  ])
  expect([world.board('red'), world.board('black')]).toEqual([['steady', 'site'], ['flagged']])
})

test('a pass whose writes were lost is made again with the same result', async () => {
  const world = await openWorld('site')
  world.live(2, 'up', 'site')
  world.nowSec += INTERVAL_SEC
  world.probed('site', 'tls_reset')
  expect(world.evaluate()).toEqual(world.evaluate())
})

test('2.1: a hidden site is evaluated but not published, and on no board; a removed one is skipped', async () => {
  const sites = [
    { slug: 'hidden', isHidden: true, flags: ['scam' as const] },
    { slug: 'shown' },
    { slug: 'gone' },
  ]
  const world = await openWorld(...sites)
  world.liveHours(8 * 24, 'up', 'hidden', 'shown', 'gone')
  expect(world.board('red')).toEqual(['gone', 'shown'])
  world.list(sites.slice(0, 2))
  const before = world.reader.evaluations().filter(({ siteId }) => siteId === world.ids.gone)
  world.live(3, 'connect_timeout', 'hidden', 'shown', 'gone')
  expect(world.reader.evaluations().filter(({ siteId }) => siteId === world.ids.gone)).toEqual(before)
  expect([world.state('hidden'), world.tier('hidden'), world.incidents('hidden').length]).toEqual([
    'unreachable',
    'D',
    1,
  ])
  expect(world.snapshot().sites.map(({ slug }) => slug)).toEqual(['shown'])
  const boards = world.database.all(
    'SELECT DISTINCT site_id AS siteId FROM board_day WHERE site_id = ?',
    world.ids.hidden,
  )
  expect(boards).toEqual([])
  expect(world.board('black')).toEqual(['shown'])
})

test('2.1: only the requested sites are evaluated, and no boards are written', async () => {
  const world = await openWorld('one', 'two')
  world.probed('one')
  world.probed('two')
  const writes = world.evaluate({ siteIds: [world.ids.two] })
  expect(writes.map(({ kind }) => kind).sort()).toEqual(['region', 'region', 'score'])
  world.write(writes)
  expect(world.snapshot().sites.map(({ slug }) => slug)).toEqual(['two'])
  expect(world.evaluate({ siteIds: [] })).toEqual([])
})

test('3.2: facts are what pages read: 30 days, counts, components, caps', async () => {
  const world = await openWorld({ slug: 'site', modelsClaimed: ['gpt-5.4', 'not-listed'] })
  world.nowSec = NOW_SEC - (NOW_SEC % DAY_SEC) - 3_600 // 23:00
  world.observed('site')
  world.liveHours(1, 'up', 'site')
  world.liveHours(24, 'degraded', 'site')
  world.nowSec += DAY_SEC // nobody looked
  world.liveHours(12, 'connect_timeout', 'site')
  const [{ score }] = world.reader.scores()
  const facts = getSiteFacts(world.snapshot().sites[0])
  expect(facts.days).toHaveLength(30)
  expect(facts.days.slice(0, 26)).toEqual(new Array(26).fill(null))
  expect(facts.days.slice(26)).toEqual([1, expect.closeTo(0.7), null, 0])
  expect(facts).toMatchObject({
    software: 'new-api',
    modelsClaimed: 2,
    modelsVerified: 2,
    isProvisional: true,
    method: 'score-1',
    computedAtSec: world.nowSec,
    caps: [
      { code: 'provisional' },
      { code: 'availability_7d_95' },
      { code: 'availability_7d_90' },
      { code: 'availability_7d_70' },
    ],
  })
  const weights = facts.components.filter(({ value }) => value !== null)
  const sum = weights.reduce((total, { weight, value }) => total + weight * value!, 0)
  expect((100 * sum) / weights.reduce((total, { weight }) => total + weight, 0)).toBeCloseTo(score)
})

test('an account of an older version, or of none, is no obstacle', async () => {
  const world = await openWorld('site')
  world.live(3, 'up', 'site')
  const [{ tierSinceSec }] = world.reader.scores()
  for (const facts of ['null', '{}', '{"borders":null,"evaluatedSec":null}']) {
    world.database.run('UPDATE site SET score_json = ?', facts)
    world.nowSec += INTERVAL_SEC
    world.pass()
    expect(account(world)).toMatchObject({ evaluatedSec: world.nowSec })
    expect(account(world).borders).toHaveLength(4)
    expect(world.reader.scores()[0].tierSinceSec).toBe(tierSinceSec)
  }
})

test('a clock that was set back does not stop evaluations', async () => {
  const world = await openWorld('site')
  world.live(1, 'up', 'site')
  world.nowSec -= 3_600
  world.pass()
  expect(account(world).evaluatedSec).toBe(world.nowSec)
})

function account(world: World): StoredEvaluation {
  return world.reader.scores()[0].facts as StoredEvaluation
}
