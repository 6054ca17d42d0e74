import { describe, expect, test } from 'vitest'
import { nextEvaluation, type Voice } from '../../../monitor/evaluation/regions.ts'
import type { Result } from '../../../monitor/evaluation/rows.ts'
import type { Evaluation } from '../../../monitor/scoring/regions.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { createObservation, DAY_SEC, INTERVAL_SEC, MAIN, NOW_SEC, openWorld, type World } from './world.ts'

const AGENTS = ['one', 'two']

describe('6.5: two agents of one region', () => {
  test('the region is reachable while one of them reaches the site', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'up', two: 'up' })
    expect(world.evaluation('site', 'cn')).toMatchObject({ state: 'reachable', vantages: 2, agreeing: 2 })
    for (let i = 0; i < 4; i++) round(world, { main: 'up', one: 'up', two: 'tls_reset' })
    expect(world.evaluation('site', 'cn')).toMatchObject({ state: 'reachable', vantages: 2, agreeing: 1 })
    expect(world.incidents('site')).toEqual([])
  })

  test('both must find it unreachable; the state holds since the second one, and the other region shows the cause', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'up', two: 'up' })
    for (let i = 0; i < 4; i++) round(world, { main: 'up', one: 'up', two: 'tls_reset' })
    const secondSec = world.nowSec + INTERVAL_SEC
    round(world, { main: 'up', one: 'tls_reset', two: 'tls_reset' })
    round(world, { main: 'up', one: 'connect_timeout', two: 'tls_reset' })
    expect(world.state('site', 'cn')).toBe('reachable…')
    round(world, { main: 'up', one: 'connect_timeout', two: 'tls_reset' })
    expect(world.evaluation('site', 'cn')).toMatchObject({
      state: 'unreachable',
      blocking: 'tls',
      agreeing: 2,
    })
    expect(world.evaluation('site')).toMatchObject({ state: 'reachable', blocking: 'none' })
    const incident = { region: 'cn', startedAtSec: secondSec, cause: 'tls_reset', vantages: 2 }
    expect(world.incidents('site')).toEqual([{ ...incident, endedAtSec: null }])
    expect(world.snapshot().sites[0]).toMatchObject({ regions: { cn: { state: 'unreachable' } } })

    // One of them reaches it again: that is half of them.
    const backSec = world.nowSec + INTERVAL_SEC
    for (let i = 0; i < 3; i++) round(world, { main: 'up', one: 'up', two: 'tls_reset' })
    expect(world.state('site', 'cn')).toBe('reachable')
    expect(world.incidents('site')).toEqual([{ ...incident, endedAtSec: backSec }])
  })

  test('down in both regions is not blocking', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'up', two: 'up' })
    for (let i = 0; i < 3; i++) round(world, { main: 'tls_reset', one: 'tls_reset', two: 'tls_reset' })
    expect(world.evaluation('site', 'cn')).toMatchObject({ state: 'unreachable', blocking: 'none' })
    expect(world.incidents('site')).toHaveLength(2)
  })

  test('the last results of offline agents hold for 24 h with their age; then the region is unknown and its incident ends', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'tls_reset', two: 'tls_reset' })
    expect(world.state('site', 'cn')).toBe('unreachable') // from unknown at once
    const foundSec = world.nowSec
    world.live(2, 'up', 'site')
    const kept = {
      state: 'unreachable',
      vantages: 0,
      agreeing: 0,
      checkedAtSec: foundSec,
      blocking: 'tls',
      pending: null,
    }
    expect(world.evaluation('site', 'cn')).toMatchObject(kept)
    expect(world.incidents('site')).toMatchObject([{ endedAtSec: null }])
    world.nowSec = foundSec + DAY_SEC - 3 * INTERVAL_SEC
    world.live(3, 'up', 'site')
    expect(world.evaluation('site', 'cn')).toMatchObject(kept)
    world.live(1, 'up', 'site')
    expect([world.state('site', 'cn'), world.state('site')]).toEqual(['unreachable…', 'reachable'])
    world.live(1, 'up', 'site')
    expect(world.evaluation('site', 'cn')).toMatchObject({
      state: 'unknown',
      vantages: 0,
      blocking: 'unknown',
    })
    const [incident] = world.incidents('site')
    expect(incident).toMatchObject({ region: 'cn', endedAtSec: world.nowSec })

    // Back after more than 24 h, and the site still fails from there: nobody knows of the time between, so it is another.
    round(world, { main: 'up', one: 'tls_reset', two: 'tls_reset' })
    expect(world.incidents('site')).toMatchObject([
      { startedAtSec: world.nowSec, endedAtSec: null },
      incident,
    ])
  })

  test('a reachable site stays reachable while its agents are offline, and is evaluated anew when they return', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'up', two: 'up' })
    const foundSec = world.nowSec
    world.nowSec += DAY_SEC / 2
    world.live(2, 'up', 'site')
    expect(world.snapshot().sites[0].regions.cn).toEqual({
      ...{ state: 'reachable', blocking: 'none', vantages: 0, agreeing: 0, checkedAtSec: foundSec },
    })
    round(world, { main: 'up', one: 'tls_reset' }) // one is back, and alone
    round(world, { main: 'up', one: 'tls_reset' })
    round(world, { main: 'up', one: 'tls_reset' })
    expect(world.evaluation('site', 'cn')).toMatchObject({ state: 'unreachable', vantages: 1, agreeing: 1 })
  })

  test('what a revoked agent found does not stand', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'up', two: 'up' })
    world.database.run('UPDATE vantage SET revoked_at = 1 WHERE region = ?', 'cn')
    world.live(2, 'up', 'site')
    expect(world.state('site', 'cn')).toBe('unknown')
  })

  test('an agent counts for 60 s after its last poll, and not after it was revoked', async () => {
    const world = await withAgents()
    round(world, { main: 'up', one: 'up', two: 'up' })
    const count = () => world.evaluation('site', 'cn')?.vantages
    world.nowSec += 60
    world.pass()
    expect(count()).toBe(2)
    world.database.run('UPDATE vantage SET revoked_at = 1 WHERE name = ?', 'two')
    world.pass()
    expect(count()).toBe(1)
    world.nowSec += 1
    world.pass()
    expect(count()).toBe(0)
  })
})

describe('6.5: a failure to connect is blocking where the control reaches the same address', () => {
  const [THERE, ELSEWHERE] = ['203.0.113.7', '198.51.100.9']

  // biome-ignore format: the columns are the specification
  const cases: [string, string | null, string[], number, string][] = [
    // the agent tried, a full probe of the server found, so many hours ago -> blocking
    ['the same address',                      THERE,     [ELSEWHERE, THERE],  1, 'tcp'],
    ['another one',                           ELSEWHERE, [THERE],             1, 'unknown'],
    ['an agent that tells none',              null,      [THERE],             1, 'tcp'],
    ['a full probe behind EGRESS_PROXY',      ELSEWHERE, [],                  1, 'tcp'],
    ['a full probe of 12 hours ago',          ELSEWHERE, [THERE],            12, 'unknown'],
    ['one before that says nothing of now',   ELSEWHERE, [THERE],            13, 'tcp'],
  ]
  for (const [name, tried, ips, hoursAgo, blocking] of cases) {
    test(`${name}: ${blocking}`, async () => {
      const world = await withAgents()
      found(world, ips, hoursAgo)
      oneRound(world, { main: ['up'], one: ['connect_timeout', tried], two: ['connect_reset', tried] })
      expect(world.evaluation('site', 'cn')).toMatchObject({ state: 'unreachable', blocking })
    })
  }

  test('agents are the control: earlier results of the server do not count as theirs', async () => {
    const world = await withAgents()
    found(world, [THERE], 1)
    oneRound(world, { main: ['connect_timeout', ELSEWHERE], one: ['up'], two: ['up'] })
    expect(world.evaluation('site')).toMatchObject({ state: 'unreachable', blocking: 'tcp' })
  })

  test('agents are the control: an address where TLS failed is not all that they reach', async () => {
    const world = await withAgents()
    oneRound(world, { main: ['connect_timeout', THERE], one: ['up'], two: ['tls_reset', ELSEWHERE] })
    expect(world.evaluation('site')).toMatchObject({ state: 'unreachable', blocking: 'tcp' })
  })

  for (const [error, blocking] of [
    ['tls_reset', 'tcp'], // the connection was there
    ['connect_timeout', 'unknown'],
  ] as const) {
    test(`an agent beside the server has ${error} at the other address: ${blocking}`, async () => {
      const world = await withAgents()
      world.vantage('beside', 'overseas')
      found(world, [THERE], 1)
      world.seen('beside')
      const tried: Tried = ['connect_timeout', ELSEWHERE]
      oneRound(world, { main: ['up'], beside: [error, ELSEWHERE], one: tried, two: tried })
      expect(world.evaluation('site', 'cn')).toMatchObject({ state: 'unreachable', blocking })
    })
  }

  type Tried = [Parameters<World['probed']>[1], (string | null)?]

  function oneRound(world: World, tried: Record<string, Tried>): void {
    for (const [name, [outcome, address]] of Object.entries(tried)) {
      world.probed('site', outcome, name, address)
    }
    world.seen(...AGENTS)
    world.pass()
  }

  /** The server's full probe of so long ago. */
  function found(world: World, ips: string[], hoursAgo: number): void {
    world.nowSec -= hoursAgo * 3_600
    world.observed('site', { profile: { ...createObservation(0).profile, ips } })
    world.nowSec += hoursAgo * 3_600
  }
})

test('6.5: the vantage of the server is always online; without one its probes expire after 24 h', async () => {
  const world = await openWorld('site')
  world.probed('site')
  world.pass()
  expect([world.state('site'), world.state('site', 'cn')]).toEqual(['reachable', 'unknown'])
  world.ownVantage = null
  world.nowSec += DAY_SEC
  for (let i = 0; i < 2; i++) {
    world.nowSec += INTERVAL_SEC
    world.pass()
  }
  expect(world.state('site')).toBe('unknown')
})

test('6.5: failures of the own network are ignored', async () => {
  const world = await openWorld('site')
  for (let i = 0; i < 3; i++) {
    world.nowSec += INTERVAL_SEC
    world.probed('site', 'tls_reset')
  }
  for (let i = 0; i < 5; i++) {
    world.nowSec += INTERVAL_SEC
    world.probed('site', 'inconclusive')
  }
  world.pass()
  expect(world.state('site')).toBe('unreachable')
})

describe('6.5: a change is counted once per interval', () => {
  const before: Evaluation = {
    state: 'reachable',
    sinceSec: 5,
    vantages: 1,
    agreeing: 1,
    checkedAtSec: 5,
    pending: null,
  }
  const down = [['down', 'down', 'down']]
  const up = [['up', 'up', 'up']]

  // biome-ignore format: the columns are the specification
  const cases: [string, Evaluation['state'], string | null, string[][], boolean, string, string | null][] = [
    // before, pending, results, out of turn -> after, pending
    ['a change is seen',                  'reachable', null,          down, false, 'reachable',   'unreachable'],
    ['and again',                         'reachable', 'unreachable', down, false, 'unreachable', null],
    ['and again, out of turn',            'reachable', 'unreachable', down, true,  'reachable',   'unreachable'],
    ['it did not last',                   'reachable', 'unreachable', up,   false, 'reachable',   null],
    ['it did not last, out of turn',      'reachable', 'unreachable', up,   true,  'reachable',   'unreachable'],
    ['a change is seen out of turn',      'reachable', null,          down, true,  'reachable',   null],
    ['a first result, out of turn',       'unknown',   null,          up,   true,  'reachable',   null],
  ]
  for (const [name, state, pending, outcomes, isOutOfTurn, after, then] of cases) {
    test(name, () => {
      const memory = { ...before, state, pending: pending && { state: pending, count: 1 } } as Evaluation
      const next = nextEvaluation(memory, toResults(outcomes), NOW_SEC, isOutOfTurn)
      expect([next.state, next.pending?.state ?? null]).toEqual([after, then])
      if (next.pending) expect(next.pending.count).toBe(1)
    })
  }

  test('passes between two intervals count nothing; half an interval later one does', async () => {
    const world = await openWorld('site')
    world.live(3, 'up', 'site')
    world.live(2, 'tls_reset', 'site')
    expect(world.state('site')).toBe('reachable…')
    const countedSec = world.nowSec
    for (const laterSec of [0, 10, 149]) {
      world.nowSec = countedSec + laterSec
      world.pass()
      world.pass({ siteIds: [world.ids.site] })
      expect(world.state('site')).toBe('reachable…')
    }
    world.nowSec = countedSec + 150
    world.pass()
    expect(world.state('site')).toBe('unreachable')
  })
})

async function withAgents(): Promise<World> {
  const world = await openWorld('site')
  for (const name of AGENTS)
    world.vantages[name] = saveVantage(world.database, { name, region: 'cn', country: 'CN' })
  return world
}

/** An interval passes; every place looks and says what it found, then a pass. */
function round(world: World, found: Record<string, Parameters<World['probed']>[1]>): void {
  world.nowSec += INTERVAL_SEC
  for (const [name, outcome] of Object.entries(found)) world.probed('site', outcome, name)
  world.seen(...Object.keys(found).filter((name) => name !== MAIN))
  world.pass()
}

function toResults(outcomes: string[][]): Voice[] {
  return outcomes.map((ofOne) => ({
    isOnline: true,
    results: ofOne.map(
      (outcome, i) =>
        ({
          atSec: NOW_SEC - i * INTERVAL_SEC,
          outcome,
          error: null,
          httpStatus: null,
          address: null,
        }) as Result,
    ),
  }))
}
