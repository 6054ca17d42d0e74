/** Which answers break the promise of their policy, and which keep it. */
import { expect, test } from 'vitest'
import { DEGRADED, DEGRADED_POLICIES, POLICY_SHIFT } from '../../../bench/load/classify-response.ts'
import { Code } from '../../../proto/ratelimit.ts'
import { type Kind, KindRecorder, PAUSE_MS } from './load.ts'

const GIVEN_UP = 'gRPC status 4 Deadline exceeded'
const NO_PAUSES = { maxBetween: () => 0 }

const by = (policy: (typeof DEGRADED_POLICIES)[number]) =>
  Code.Ok | DEGRADED | (DEGRADED_POLICIES.indexOf(policy) << POLICY_SHIFT)

// biome-ignore format: a table
test.each<[policy: KindRecorder['policy'], code: number, kind: Kind, broken: number]>([
  ['local', by('local'),    'local',        0],
  ['local', by('allow'),    'allow',        1],
  ['allow', by('deny'),     'deny',         1],
  ['deny',  by(''),         'failed',       1],
  ['error', by('local'),    'local',        1],
  ['error', Code.OverLimit, 'over limit',   0],
  ['deny',  Code.Ok,        'within limit', 0],
])('policy %s, code %i: %s', (policy, code, kind, broken) => {
  const recorder = new KindRecorder({ policy }, NO_PAUSES)
  recorder.addResponse(1, 2, code)
  expect(recorder).toMatchObject({ broken, passed: code === Code.Ok ? 1 : 0 })
  expect(recorder.counts[kind]).toBe(1)
})

test('an attempt to connect is not a call', () => {
  const recorder = new KindRecorder({ policy: 'allow' }, NO_PAUSES)
  recorder.addFailure('cannot connect again (closed by the server): connect ECONNREFUSED')
  expect(recorder).toMatchObject({ broken: 0, others: 1 })
})

test('an error is the answer of the policy error alone', () => {
  const broken = (['error', 'allow', 'deny', 'local'] as const).map((policy) => {
    const recorder = new KindRecorder({ policy }, NO_PAUSES)
    recorder.addFailure('UNAVAILABLE')
    return recorder.broken
  })
  expect(broken).toEqual([0, 1, 1, 1])
})

/** A pause of the machine that has just ended. */
function paused(ms: number, agoMs: number) {
  const endMs = performance.now() - agoMs
  return { maxBetween: (fromMs: number) => (fromMs <= endMs ? ms : 0) }
}

// biome-ignore format: a table
test.each([
  // pause, its end      broken, excused    others excused
  [PAUSE_MS,      0,        0,      1,        2],
  [PAUSE_MS - 1,  0,        1,      0,        0], // the service answers in time
  [PAUSE_MS,  1_000,        1,      0,        2], // the call began later
  [PAUSE_MS, 60_000,        1,      0,        0], // service must be normal again
])('a pause of %i ms, %i ms ago: a call given up is broken %i, excused %i', (ms, agoMs, broken, givenUpExcused, othersExcused) => {
  const recorder = new KindRecorder({ policy: 'local' }, paused(ms, agoMs))
  recorder.addFailure(GIVEN_UP)
  recorder.addResponse(1, 2, by('local'))
  expect(recorder).toMatchObject({ broken, givenUpExcused, othersExcused, others: 2 })
  expect(recorder.lastOtherMs > 0).toBe(othersExcused === 0)
})

test.each([
  ['gRPC status 2 defect', 0],
  ['connection lost: read ECONNRESET', 0],
  [GIVEN_UP, 1],
])('no pause excuses another failure: %s', (reason, excused) => {
  const recorder = new KindRecorder({ policy: 'deny' }, paused(1_000, 0))
  recorder.addFailure(reason)
  expect(recorder).toMatchObject({ givenUpExcused: excused, broken: 1 - excused })
})
