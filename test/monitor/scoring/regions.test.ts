import { describe, expect, test } from 'vitest'
import type { ErrorCode, ListingAuth, Outcome, Probe } from '../../../monitor/facts.ts'
import { type Evidence, regionState } from '../../../monitor/scoring/blocking.ts'
import { classifyProbe, reclassify, recordConnectivity } from '../../../monitor/scoring/outcome.ts'
import {
  type Evaluation,
  evaluate,
  firstEvaluation,
  type VantageView,
} from '../../../monitor/scoring/regions.ts'

const NOW_SEC = 1_795_194_360

/** `u` up, `g` degraded, `d` down, `i` inconclusive; newest first, five minutes apart. */
function vantage(letters: string, lastSeenSec = NOW_SEC): VantageView {
  const outcomes: Record<string, Outcome> = { u: 'up', g: 'degraded', d: 'down', i: 'inconclusive' }
  const results = [...letters].map((letter, i) => ({ atSec: NOW_SEC - 300 * i, outcome: outcomes[letter] }))
  return { lastSeenSec, results: results.reverse() } // in whatever order
}

const evaluateViews = (...views: VantageView[]) => evaluate(firstEvaluation(0), views, NOW_SEC)

describe('M6.5#1: a vantage votes up when 2 of its 3 newest counted results are up or degraded', () => {
  // biome-ignore format: the columns are the specification
  const results = [
    ['uuu', 'reachable'],
    ['uud', 'reachable'],
    ['dug', 'reachable'],   // degraded is reached
    ['udd', 'unreachable'],
    ['ddd', 'unreachable'],
    ['dduuuuuuu', 'unreachable'], // only the 3 newest
    ['diuiiu', 'reachable'], // inconclusive ones are not counted
    ['didiu', 'unreachable'],
    ['u',   'reachable'],   // fewer than 3: at least half
    ['d',   'unreachable'],
    ['ud',  'reachable'],
    ['iii', 'unknown'],     // no counted result is no word
    ['',    'unknown'],
  ] as const
  for (const [letters, state] of results) {
    test(`${letters || 'nothing'}: ${state}`, () => expect(evaluateViews(vantage(letters)).state).toBe(state))
  }

  test('results of days ago do not count', () => {
    const old = vantage('uuu').results.map((result) => ({ ...result, atSec: result.atSec - 86_401 }))
    expect(evaluateViews({ lastSeenSec: NOW_SEC, results: old }).state).toBe('unknown')
  })
})

describe('M6.5#2 M13#10: the quorum of n vantages', () => {
  // biome-ignore format: the columns are the specification
  const quorums = [
    // n, say up -> state, agreeing
    [0, 0, 'unknown',     0],
    [1, 1, 'reachable',   1],
    [1, 0, 'unreachable', 1],
    [2, 2, 'reachable',   2],
    [2, 1, 'reachable',   1], // ceil(2/2) = 1
    [2, 0, 'unreachable', 2],
    [3, 2, 'reachable',   2],
    [3, 1, 'unreachable', 2],
    [4, 2, 'reachable',   2],
    [4, 1, 'unreachable', 3],
    [5, 3, 'reachable',   3],
    [5, 2, 'unreachable', 3],
  ] as const
  for (const [n, upCount, state, agreeing] of quorums) {
    test(`${upCount} of ${n} vote up: ${state}`, () => {
      const views = Array.from({ length: n }, (_, i) => vantage(i < upCount ? 'uuu' : 'ddd'))
      expect(evaluateViews(...views)).toMatchObject({ state, agreeing, vantages: n })
    })
  }

  test('one that has not polled for more than 60 s has no voice', () => {
    const at60 = evaluateViews(vantage('uuu', NOW_SEC - 60), vantage('ddd', NOW_SEC - 61))
    expect(at60).toMatchObject({ state: 'reachable', vantages: 1, agreeing: 1 })
  })

  test('while no online one has results, those of the others stand for 24 h, and none agrees now', () => {
    const away = vantage('uud', NOW_SEC - 61)
    const kept = { state: 'reachable', vantages: 0, agreeing: 0, checkedAtSec: NOW_SEC }
    expect(evaluateViews(away)).toMatchObject(kept)
    expect(evaluateViews(away, vantage('iii'))).toMatchObject({ ...kept, vantages: 1 })
    expect(evaluate(firstEvaluation(0), [away], NOW_SEC + 86_400).state).toBe('reachable')
    expect(evaluate(firstEvaluation(0), [away], NOW_SEC + 86_401 + 600).state).toBe('unknown')
  })

  test('one without results is online, and has no voice', () => {
    expect(evaluateViews(vantage('ddd'), vantage(''))).toMatchObject({
      state: 'unreachable',
      vantages: 2,
      agreeing: 1,
    })
  })

  test('checked at: the newest counted result, and the last known one when there is none', () => {
    const first = evaluateViews(vantage('iud'), vantage('id'))
    expect(first.checkedAtSec).toBe(NOW_SEC - 300)
    expect(evaluate(first, [], NOW_SEC + 900).checkedAtSec).toBe(NOW_SEC - 300)
    expect(evaluateViews().checkedAtSec).toBeNull()
  })
})

describe('M6.5#3: a change must hold for 2 evaluations in a row, except from unknown', () => {
  // biome-ignore format: the columns are the specification
  const walks = [
    // seen at each evaluation -> state after each: R reachable, U unreachable, - unknown
    ['R',       'R'],        // from unknown at once
    ['U',       'U'],
    ['RU',      'RR'],       // once is not enough
    ['RUU',     'RRU'],
    ['RURURU',  'RRRRRR'],   // never twice in a row
    ['RU-U',    'RRRR'],     // another change in between starts again
    ['R--',     'RR-'],      // to unknown must hold too
    ['R--U',    'RR-U'],     // and away from it need not
    ['UURR',    'UUUR'],
    ['U-RR',    'UUUR'],
  ] as const
  for (const [seen, states] of walks) {
    test(`${seen} gives ${states}`, () => {
      let evaluation = firstEvaluation(0)
      const walked = [...seen].map((letter, i) => {
        const views = letter === '-' ? [] : [vantage(letter === 'R' ? 'uuu' : 'ddd', NOW_SEC + 300 * i)]
        evaluation = evaluate(evaluation, views, NOW_SEC + 300 * i)
        return { reachable: 'R', unreachable: 'U', unknown: '-' }[evaluation.state]
      })
      expect(walked.join('')).toBe(states)
    })
  }

  test('since: when the state was adopted, not when it was first seen', () => {
    const up = evaluate(firstEvaluation(0), [vantage('uuu')], NOW_SEC)
    const once = evaluate(up, [vantage('ddd')], NOW_SEC + 10)
    const twice = evaluate(once, [vantage('ddd')], NOW_SEC + 20)
    expect([up.sinceSec, once.sinceSec, twice.sinceSec]).toEqual([NOW_SEC, NOW_SEC, NOW_SEC + 20])
    expect(once).toMatchObject({
      state: 'reachable',
      agreeing: 0,
      pending: { state: 'unreachable', count: 1 },
    })
    expect(twice.pending).toBeNull()
  })
})

describe('6.5: blocking', () => {
  const evaluationWith = (state: Evaluation['state']): Evaluation => ({
    ...firstEvaluation(0),
    state,
    vantages: 2,
    agreeing: 2,
  })
  const evidence = (
    error: ErrorCode | null,
    httpStatus: number | null = null,
    address: string | null = null,
  ) => ({ error, httpStatus, address }) satisfies Evidence
  const fine = evidence(null, 401, '9.9.9.9')
  const findBlocking = (
    here: Evidence[],
    control = [fine],
    a = evaluationWith('unreachable'),
    b = evaluationWith('reachable'),
  ) => regionState(a, b, here, control).blocking

  // biome-ignore format: the columns are the specification
  const layers = [
    ['dns',     ['dns_nxdomain']],
    ['dns',     ['dns_bogus']],
    ['dns',     ['target_not_allowed']],
    ['unknown', ['dns_timeout']], // a slow resolver is no block
    ['tcp',     ['connect_timeout']],
    ['tcp',     ['connect_reset']],
    ['unknown', ['connect_refused']], // that is the site's own
    ['tls',     ['tls_reset']],
    ['tls',     ['tls_timeout']],
    ['unknown', ['tls_expired']],
    ['http',    ['http_4xx']],
    ['http',    ['not_api']],
    ['tls',     ['tls_reset', 'connect_timeout', 'tls_reset']], // the most frequent
    ['tcp',     ['tls_reset', 'connect_timeout']],              // of equals the lower layer
    ['unknown', []],
  ] as const
  for (const [layer, codes] of layers) {
    test(`${codes.join(', ') || 'no failure'}: ${layer}`, () => {
      expect(findBlocking(codes.map((code) => evidence(code)))).toBe(layer)
    })
  }

  test('tcp only to an address that the control reaches, when both are known', () => {
    expect(findBlocking([evidence('connect_timeout', null, '9.9.9.9')])).toBe('tcp')
    expect(findBlocking([evidence('connect_timeout', null, '8.8.8.8')])).toBe('unknown')
    expect(findBlocking([evidence('connect_timeout', null, '8.8.8.8')], [evidence(null, 401)])).toBe('tcp')
  })

  test('the control reaches where its TLS or HTTP fails, not where it cannot connect either', () => {
    const here = [evidence('connect_timeout', null, '8.8.8.8')]
    expect(findBlocking(here, [fine, evidence('tls_reset', null, '8.8.8.8')])).toBe('tcp')
    expect(findBlocking(here, [fine, evidence('connect_reset', null, '8.8.8.8')])).toBe('unknown')
    expect(findBlocking(here, [evidence(null, 401), evidence('connect_reset', null, '9.9.9.9')])).toBe('tcp')
  })

  test('http only for what the control does not see', () => {
    expect(findBlocking([evidence('http_4xx', 451)], [fine, evidence('http_4xx', 404)])).toBe('http')
    expect(findBlocking([evidence('http_4xx', 451)], [fine, evidence('http_4xx', 451)])).toBe('unknown')
  })

  // biome-ignore format: the columns are the specification
  const states = [
    ['reachable',   'reachable',   'none'],
    ['reachable',   'unreachable', 'none'],
    ['unreachable', 'reachable',   'tls'],
    ['unreachable', 'unreachable', 'none'], // both sides down
    ['unreachable', 'unknown',     'none'], // nothing to compare with
    ['unknown',     'reachable',   'unknown'],
    ['unknown',     'unknown',     'unknown'],
  ] as const
  for (const [a, b, want] of states) {
    test(`${a} here, ${b} there: ${want}`, () => {
      expect(findBlocking([evidence('tls_reset')], [fine], evaluationWith(a), evaluationWith(b))).toBe(want)
    })
  }

  test('2.2: the state as it is published', () => {
    const region = evaluate(firstEvaluation(0), [vantage('ddd'), vantage('ddu')], NOW_SEC)
    expect(regionState(region, evaluationWith('reachable'), [evidence('dns_bogus')], [fine])).toEqual({
      state: 'unreachable',
      blocking: 'dns',
      vantages: 2,
      agreeing: 2,
      checkedAtSec: NOW_SEC,
    })
  })
})

describe('6.3: outcomes', () => {
  // biome-ignore format: the columns are the specification
  const outcomes: [ListingAuth, number | null, number | null, ErrorCode | null, Outcome, ErrorCode | null][] = [
    // listing,      status, ttfb, error             -> outcome, error
    ['open',            200,  900, null,               'up',       null],
    ['key_required',    401,  900, null,               'up',       null],
    ['key_required',    403, 3000, null,               'up',       null],
    ['open',            200, 3001, null,               'degraded', 'slow'],
    ['absent',          429,   10, null,               'degraded', 'http_429'],
    ['key_required',    429,   10, null,               'degraded', 'http_429'],
    ['absent',          403,   10, 'challenge',        'degraded', 'challenge'],
    ['absent',          404,   10, null,               'down',     'http_4xx'],
    ['absent',          502,   10, null,               'down',     'http_5xx'],
    ['absent',          200,   10, null,               'down',     'not_api'],
    ['absent',          200,   10, 'body_invalid',     'down',     'body_invalid'],
    ['absent',         null, null, 'connect_refused',  'down',     'connect_refused'],
    ['absent',          200,   10, 'parked',           'down',     'parked'],
    ['open',            200,   10, 'tls_expired',      'down',     'tls_expired'],
  ]
  for (const [listing, httpStatus, ttfbMs, seen, outcome, error] of outcomes) {
    test(`listing ${listing}, status ${httpStatus}, ${ttfbMs} ms, ${seen}: ${outcome} ${error}`, () => {
      expect(classifyProbe({ listing, httpStatus, ttfbMs, error: seen })).toEqual({ outcome, error })
    })
  }

  test('PROBE_SLOW_MS is a setting', () => {
    const finding = { listing: 'open', httpStatus: 200, ttfbMs: 900, error: null } as const
    expect(classifyProbe(finding, 500).outcome).toBe('degraded')
  })
})

describe('6.5: the control check', () => {
  const minute = Math.floor(NOW_SEC / 60) * 60
  const probeAt = (atSec: number, outcome: Outcome): Probe => ({
    atSec,
    kind: 'light',
    outcome,
    error: null,
    httpStatus: null,
    timings: { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null },
  })
  const failed = recordConnectivity([], minute + 10, [true, false, false])

  // biome-ignore format: the columns are the specification
  const cases = [
    [        -1, 'down',     'down'],
    [         0, 'down',     'inconclusive'], // that minute
    [        59, 'down',     'inconclusive'],
    [       119, 'down',     'inconclusive'], // and the next
    [       120, 'down',     'down'],
    [        30, 'up',       'up'],           // what worked, worked
    [        30, 'degraded', 'degraded'],
  ] as const
  for (const [offset, outcome, want] of cases) {
    test(`${outcome} at ${offset} s of the failed minute is ${want}`, () => {
      expect(reclassify(probeAt(minute + offset, outcome), failed).outcome).toBe(want)
    })
  }

  test('two of three responses are enough, one of one, not one of two; what is stored is bounded', () => {
    expect(recordConnectivity([], minute, [true, true, false])).toEqual([])
    expect(recordConnectivity([], minute, [false, false, false])).toHaveLength(1)
    expect(recordConnectivity([], minute, [true])).toEqual([])
    expect(recordConnectivity([], minute, [false])).toHaveLength(1)
    expect(recordConnectivity([], minute, [true, false])).toHaveLength(1)
    expect(recordConnectivity(failed, minute + 20, [false, false, false])).toEqual(failed) // one minute, one entry
    expect(recordConnectivity(failed, minute + 20, [true, true, true])).toEqual(failed) // nothing is taken back
    let minutes: number[] = []
    for (let i = 0; i < 500; i++) minutes = recordConnectivity(minutes, minute + 60 * i, [false])
    expect(minutes).toHaveLength(60)
    expect(reclassify(probeAt(minute + 60 * 499, 'down'), minutes).outcome).toBe('inconclusive')
  })
})
