/** Results are drawn newest last: `.` up, `x` down, one per interval; the last one is of now. */
import { describe, expect, test } from 'vitest'
import { nextIncident } from '../../../monitor/evaluation/incidents.ts'
import type { KnownIncident, Result } from '../../../monitor/evaluation/rows.ts'
import type { ErrorCode, RegionState } from '../../../monitor/facts.ts'
import { INTERVAL_SEC, NOW_SEC } from './world.ts'

describe('3.2: an outage starts with the first failed probe of the place that tipped the scales', () => {
  // biome-ignore format: the columns are the specification
  const cases: [string, number, string[]][] = [
    // intervals ago, results per place
    ['three in a row',                       2, ['.....xxx']],
    ['a good one between does not end it',   4, ['....xx.xx']],
    ['two of three',                         2, ['......x.x']],
    ['a place without any results',          2, ['.....xxx', '']],
    ['two places, together',                 2, ['.....xxx', '.....xxx']],
    ['two places, one after the other',      2, ['..xxxxxx', '.....xxx']],
    ['three, one of them down for long',     2, ['xxxxxxxx', '.....xxx', '........']],
    ['three, all down in turn',              4, ['xxxxxxxx', '...xxxxx', '.....xxx']],
  ]
  for (const [name, ago, drawn] of cases) {
    test(name, () => {
      const incident = next('unreachable', null, drawn)
      expect(incident).toMatchObject({ startedAtSec: NOW_SEC - ago * INTERVAL_SEC, endedAtSec: null })
    })
  }
})

describe('3.2: it ends with the first good probe of the place that tipped them back', () => {
  // biome-ignore format: the columns are the specification
  const cases: [string, number, string[]][] = [
    ['three in a row',                         2, ['xxxxx...']],
    ['a failed one between does not matter',   4, ['xxxx..x..']],
    ['one of two places',                      2, ['xxxxx...', 'xxxxxxxx']],
    ['both, one after the other',              3, ['xxxxx...', 'xxxx....']],
    ['one of three, and one that was never down', 2, ['xxxxx...', 'xxxxxxxx', '........']],
  ]
  for (const [name, ago, drawn] of cases) {
    test(name, () => {
      const open = known({ startedAtSec: NOW_SEC - 100 * INTERVAL_SEC })
      expect(next('reachable', open, drawn)).toEqual({ ...open, endedAtSec: NOW_SEC - ago * INTERVAL_SEC })
    })
  }

  test('it ends when the vantages go offline', () => {
    const open = known({ startedAtSec: NOW_SEC - 900 })
    expect(next('unknown', open, [])).toEqual({ ...open, endedAtSec: NOW_SEC })
  })

  test('never before it started', () => {
    const open = known({ startedAtSec: NOW_SEC + 60 }) // an agent's clock
    expect(next('reachable', open, ['xxxx...'])).toEqual({ ...open, endedAtSec: NOW_SEC + 60 })
  })
})

test('3.2: nothing opens twice, and what is closed stays closed', () => {
  expect(next('unreachable', known({ endedAtSec: null }), ['xxx'])).toBeNull()
  expect(next('reachable', known({ endedAtSec: NOW_SEC - 9 }), ['...'])).toBeNull()
  expect(next('reachable', null, ['...'])).toBeNull()
  expect(next('unknown', null, [])).toBeNull()
})

test('3.2: an outage that continued while no vantage was online is the same incident; a later one is another', () => {
  const closed = known({ startedAtSec: NOW_SEC - 9_000, endedAtSec: NOW_SEC - 400 })
  expect(next('unreachable', closed, ['xxxxxx'])).toEqual({ ...closed, endedAtSec: null })
  expect(next('unreachable', closed, ['..xx'])).toMatchObject({ startedAtSec: NOW_SEC - INTERVAL_SEC })
})

describe('3.2: its cause is the most frequent error of those probes, of equals the lower layer', () => {
  // biome-ignore format: the columns are the specification
  const cases: [ErrorCode, ErrorCode[]][] = [
    ['tls_reset',    ['tls_reset', 'dns_timeout', 'tls_reset']],
    ['dns_timeout',  ['tls_reset', 'tls_reset', 'dns_timeout', 'dns_timeout']],
    ['http_5xx',     ['http_5xx']],
  ]
  for (const [cause, errors] of cases) {
    test(errors.join(', '), () => {
      const results = errors.map((error, i): Result => {
        return { atSec: NOW_SEC - i * INTERVAL_SEC, outcome: 'down', error, httpStatus: null, address: null }
      })
      const evaluation = { state: 'unreachable', sinceSec: NOW_SEC, agreeing: 1 } as const
      expect(nextIncident(evaluation, null, () => [results], NOW_SEC)?.cause).toBe(cause)
    })
  }
})

function next(
  state: RegionState['state'],
  newest: KnownIncident | null,
  drawn: string[],
): KnownIncident | null {
  return nextIncident({ state, sinceSec: NOW_SEC, agreeing: 1 }, newest, () => drawn.map(results), NOW_SEC)
}

function known(more: Partial<KnownIncident>): KnownIncident {
  return { startedAtSec: 0, endedAtSec: null, cause: 'tls_reset', vantages: 1, ...more }
}

/** As the pass hands them over: newest first. */
function results(drawn: string): Result[] {
  return [...drawn].reverse().map((mark, i) => ({
    atSec: NOW_SEC - i * INTERVAL_SEC,
    outcome: mark === 'x' ? 'down' : 'up',
    error: mark === 'x' ? 'connect_timeout' : null,
    httpStatus: null,
    address: null,
  }))
}
