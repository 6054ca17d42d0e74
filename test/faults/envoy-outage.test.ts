/** An outage behind a real Envoy in a short form; and what the long one checks and draws, with answers that are wrong. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startEnvoy } from '../helpers/envoy.ts'
import { eventually } from '../helpers/eventually.ts'
import { startFaultyStore } from '../helpers/faulty-store.ts'
import { startService } from '../helpers/service.ts'
import { findWrongAnswers } from './envoy-outage-limits.ts'
import { drawPicture } from './envoy-outage-picture.ts'
import { findBrokenPromises } from './envoy-outage-promises.ts'
import { type Answer, createEnvoyConfig, type Kind, type Plan, REFERENCE } from './envoy-outage-run.ts'
import { type Figures, type Row, summarize } from './envoy-outage-series.ts'

const LIMIT = 2

test('Redis stops: users behind Envoy see no failed check, limits hold, no connection is lost', async () => {
  const store = await startFaultyStore('redis', 'stop')
  onTestFinished(() => store.stop())
  const limit = `rate_limit: { unit: day, requests_per_unit: ${LIMIT} }`
  const service = await startService({
    rules: {
      'envoy.yaml': `domain: envoy\ndescriptors:\n  - { key: user, on_store_error: local, ${limit} }\n`,
    },
    // the deadline is the service's, since a busy machine would miss Envoy's 20 ms
    env: { DEGRADED_HEADER: 'true', DECISION_TIMEOUT: '100ms', REDIS_OPERATION_TIMEOUT: '60s', ...store.env },
  })
  const envoy = await startEnvoy(createEnvoyConfig(service.address('gRPC').split(':')[1], 60_000))
  const get = async (user: string) => {
    const { status, headers } = await fetch(`${envoy.url}/limited`, { headers: { 'x-user': user } })
    return `${status} ${headers.get('x-ratelimit-degraded') ?? 'counted'}`
  }
  const getThree = async (user: string) => [await get(user), await get(user), await get(user)]
  let user = 0
  await eventually(async () => expect(await get(`first${user++}`)).toBe('200 counted'))
  await store.begin()
  await eventually(async () => {
    expect(await get(`waits${user++}`)).toBe('200 local')
    expect(service.log).toContain('and calls reached their deadlines')
  })
  expect(await getThree('during')).toEqual(['200 local', '200 local', '429 local'])
  await store.end()
  await eventually(async () =>
    expect(await getThree(`after${user++}`)).toEqual(['200 counted', '200 counted', '429 counted']),
  )
  const stats = await envoy.admin('/stats?filter=ratelimit|cluster.sluice.upstream_cx')
  expect(stats).not.toContain('cluster.service.ratelimit.error')
  expect(stats).toContain('cluster.sluice.upstream_cx_total: 1\n')
  expect(stats).toContain('cluster.sluice.upstream_cx_destroy: 0\n')
  expect(stats).toContain('cluster.sluice.upstream_cx_connect_fail: 0\n')
})

/** Answers to one user, in order; those from `fromFault` on are due in the second half of a fault of 1 s or later. */
function createAnswers(kinds: readonly Kind[], fromFault = kinds.length): Answer[] {
  return kinds.map((kind, i) => ({ atMs: i < fromFault ? i - 1_000 : 600 + i, latencyMs: 1, kind, user: 7 }))
}

describe('the check of answers against a limit of 2', () => {
  const [C, D, N, R, F] = ['counted', 'degraded', 'denied', 'refused', 'failed'] as const

  // biome-ignore format: a table
  const cases: [what: string, service: Plan['service'], fault: Plan['fault'], kinds: Kind[], fromFault: number, wrong: number][] = [
    ['counts, then refusals',                   'error',   'stop', [C, C, R, R],       9, 0],
    ['a third by a count',                      'error',   'stop', [C, C, C],          9, 1],
    ['refused within the limit',                'error',   'stop', [C, R],             9, 1],
    ['refused after a hit without an answer',   'error',   'stop', [C, F, R],          9, 0],
    ['counted after one, too',                  'error',   'stop', [C, F, C, R],       9, 0],
    ['local from 0',                            'local',   'stop', [C, C, D, D, N, R], 9, 0],
    ['a third by the policy',                   'local',   'stop', [D, D, D],          9, 1],
    ['refused by the policy within its limit',  'local',   'stop', [C, C, D, N],       9, 1],
    ['the policy may have counted a failed one', 'local',  'stop', [D, F, N],          9, 0],
    ['policies do not raise the limit',         'local',   'stop', [C, C, D, D, C],    9, 1],
    ['allow passes all',                        'allow',   'stop', [D, D, D, D],       9, 0],
    ['allow refuses none',                      'allow',   'stop', [D, N],             9, 1],
    ['deny passes none',                        'deny',    'stop', [N, D],             9, 1],
    ['no policy of another service',            REFERENCE, 'stop', [D],                9, 1],
    ['a killed store has forgotten',            'error',   'kill', [C, C, C, C, R],    2, 0],
    ['and begins again from 0',                 'error',   'kill', [C, C, R],          2, 1],
    ['a stopped one has not',                   'error',   'stop', [C, C, C, C],       2, 2],
  ]
  test.each(cases)('%s', (_what, service, fault, kinds, fromFault, wrong) => {
    const outcome = { answers: createAnswers(kinds, fromFault), faultMs: 1_000 }
    expect(findWrongAnswers(outcome, { service, fault, limit: LIMIT })).toHaveLength(wrong)
  })
})

const FIGURES = { ok: 0, error: 0, overLimit: 1, failureModeAllowed: 2, connections: 1 }
const LOST = {
  timeouts: 3,
  connectionsLost: 2,
  connectFailures: 1,
  callsByMs: new Map([
    [0, 98],
    [7, 2],
  ]),
}

function createRow(service: Plan['service'], kinds: Kind[]): Row {
  const answers = kinds.map((kind, i) => ({ atMs: i * 50 - 200, latencyMs: i, kind, user: i }))
  const envoy = { ...FIGURES, ...LOST }
  const outcome = {
    answers,
    firstMs: -150,
    faultMs: 200,
    openMs: 70,
    lagMs: 2,
    envoy,
    envoyInAll: envoy,
    envoyWhileOpen: envoy,
  }
  const plan: Pick<Plan, 'service' | 'fault' | 'limit'> = { service, fault: 'stop', limit: LIMIT }
  return { store: 'redis', fault: 'stop', service, ratePerSec: 20, runs: [summarize(outcome, plan)] }
}

const KINDS_OF_RUN: Kind[] = [
  'failed',
  'counted',
  'failed',
  'counted',
  'degraded',
  'denied',
  'failed',
  'degraded',
  'counted',
  'denied',
  'counted',
]

test('the figures of a run: without the warm-up, back is from the end of the fault', () => {
  const [{ figures, steps }] = createRow('local', KINDS_OF_RUN).runs
  expect(figures).toEqual({
    ...{
      requests: 10,
      counted: 4,
      degraded: 2,
      refused: 2,
      failed: 2,
      timeouts: 3,
      lateWhileOpen: 3,
      openMs: 70,
    },
    ...{
      serviceP99WhileOpenMs: 7,
      slowestMs: 7,
      lost: 3,
      backMs: 50,
      wrong: 2,
      differing: 6,
      lagMs: 2,
      failedBefore: 1,
    },
  })
  expect(steps.map(({ atMs, counts, p99Ms }) => [atMs, counts.counted, counts.failed, p99Ms])).toEqual([
    [-150, 1, 1, 2],
    [-50, 1, 0, 4],
    [50, 0, 1, 6],
    [150, 1, 0, 8],
    [250, 1, 0, 10],
  ])
})

describe('promises of a row at 2,000 requests per second', () => {
  const GOOD = { wrong: 0, differing: 0, lost: 0, failed: 0 }
  const row = (service: Plan['service'], ...all: Partial<Figures>[]): Row => {
    const [run] = createRow(service, KINDS_OF_RUN).runs
    const runs = all.map((own) => ({ ...run, figures: { ...run.figures, ...GOOD, ...own } }))
    return { store: 'redis', fault: 'stop', service, ratePerSec: 2_000, runs }
  }

  // biome-ignore format: a table
  test.each<[Plan['service'], Partial<Figures>, string[]]>([
    ['local',   {},                              []],
    ['allow',   { failed: 10 },                  []],
    ['allow',   { failed: 11 },                  ['11 failed requests in one run, at most 10']],
    ['error',   { failed: 9_000 },               []],
    ['error',   { wrong: 1, lost: 2 },           ['1 answers that the limit does not allow in one run, at most 0', '2 connections of Envoy lost in one run, at most 0']],
    ['deny',    { differing: 3 },                ["3 answers that Envoy's statistics do not confirm in one run, at most 0"]],
    [REFERENCE, { failed: 9, wrong: 1, lost: 1 }, []],
    [REFERENCE, { differing: 1 },                ["1 answers that Envoy's statistics do not confirm in one run, at most 0"]],
  ])('%s %j', (service, figures, broken) => {
    const expected = broken.map((text) => `redis stop ${service}: ${text}`)
    expect(findBrokenPromises(row(service, {}, figures, {}))).toEqual(expected)
  })

  test('a row without a valid run says nothing', () => {
    expect(findBrokenPromises(row('local'))).toEqual(['redis stop local: no run is valid'])
  })
})

// biome-ignore format: a table
test.each([
  ['envoy-outage.ts', ['--store', 'redis', '--fault', 'stop', '--policy', 'deny', '--runs', '0'], /^FAILED: redis stop deny: no run is valid$/m],
  ['envoy-outage.ts', ['--store', 'etcd'],                                                        /^FAILED: no row has this store, fault and policy$/m],
  ['outage.ts',       ['--store', 'redis', '--fault', 'stop', '--policy', 'deny', '--runs', '0'], /^FAILED: redis stop deny: no run is valid$/m],
  ['outage.ts',       ['--store', 'etcd'],                                                        /^FAILED: no row has this store, fault and policy$/m],
])('%s %j ends with 1', (program, args, text) => {
  const path = fileURLToPath(new URL(program, import.meta.url))
  const { status, stdout } = spawnSync(process.execPath, [path, ...args], { encoding: 'utf8' })
  expect(stdout).toMatch(text)
  expect(status).toBe(1)
})

test('the picture has a panel per service, in its order, and says in words what it shows', () => {
  const services: Plan['service'][] = [REFERENCE, 'error', 'deny', 'allow', 'local']
  const picture = drawPicture(services.map((service) => createRow(service, KINDS_OF_RUN)))
  const titles = [...picture.matchAll(/class="h2 ink"[^>]*>([^<]+)/g)].map(([, title]) => title)
  expect(titles).toEqual(['local', 'allow', 'deny', 'error', REFERENCE])
  expect(picture).toContain(
    'local: of 10 requests 4 passed by a count, 2 passed by the policy, 2 refused, 2 failed.',
  )
  expect(picture).toContain('>429, by the policy<')
  expect(picture).not.toContain('>429, by a count in the store<')
  expect(picture).not.toMatch(/NaN|Infinity|undefined/)
})
