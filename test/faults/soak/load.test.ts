/** Which answers break the promise of their policy, and which keep it. */
import { expect, test } from 'vitest'
import { DEGRADED, DEGRADED_POLICIES, POLICY_SHIFT } from '../../../bench/load/classify-response.ts'
import { Code } from '../../../proto/ratelimit.ts'
import { type Kind, KindRecorder } from './load.ts'

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
  const recorder = new KindRecorder({ policy })
  recorder.addResponse(1, 2, code)
  expect(recorder).toMatchObject({ broken, passed: code === Code.Ok ? 1 : 0 })
  expect(recorder.counts[kind]).toBe(1)
})

test('an attempt to connect is not a call', () => {
  const recorder = new KindRecorder({ policy: 'allow' })
  recorder.addFailure('cannot connect again (closed by the server): connect ECONNREFUSED')
  expect(recorder).toMatchObject({ broken: 0, others: 1 })
})

test('an error is the answer of the policy error alone', () => {
  const broken = (['error', 'allow', 'deny', 'local'] as const).map((policy) => {
    const recorder = new KindRecorder({ policy })
    recorder.addFailure('UNAVAILABLE')
    return recorder.broken
  })
  expect(broken).toEqual([0, 1, 1, 1])
})
