/** Detections of the fake relays: verdict, tier, notices, and the steps that lead there. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DetectionOutcome } from '../../../monitor/probe/detect.ts'
import { detect } from '../../../monitor/probe/detect.ts'
import type { Step } from '../../../monitor/probe/steps.ts'
import type { RelayKind } from '../../helpers/fake-relays.ts'
import type { Relays } from './setup.ts'
import { NOW_SEC, SLOW, startRelays } from './setup.ts'

let world: Relays
beforeAll(async () => {
  world = await startRelays()
})
afterAll(() => world.close())

const request = { region: 'overseas', isSingleVantage: true } as const
const steps: Step[] = []
const run = (url: string, signal?: AbortSignal): Promise<DetectionOutcome> => {
  steps.length = 0
  const context = world.context(url.includes('//slow.') ? SLOW : {})
  return detect(context, { ...request, url, signal, onStep: (step) => steps.push(step) })
}

// biome-ignore format: the columns are the specification
const cases: [RelayKind, string, number, string, string | null, string[]][] = [
  // relay          verdict          sure   status      tier  notices, besides the single vantage
  ['new-api',       'relay',          0.99, 'up',       'B',  ['http_only']],
  ['open',          'compatible_api', 0.9,  'up',       'B',  ['http_only']],
  ['empty',         'compatible_api', 0.6,  'up',       'B',  ['http_only']],
  ['key-only',      'compatible_api', 0.6,  'up',       'B',  ['http_only']],
  ['liar',          'relay',          0.99, 'up',       'B',  ['http_only', 'leaks_upstream']],
  ['slow',          'compatible_api', 0.9,  'degraded', 'D',  ['http_only', 'slow']],
  ['challenge',     'blocked',        0.9,  'degraded', null, ['challenge_page', 'http_only']],
  ['too-many',      'blocked',        0.6,  'degraded', null, ['http_only', 'rate_limited']],
  ['plain',         'not_relay',      0.8,  'down',     null, ['http_only']],
  ['parked',        'not_relay',      0.9,  'down',     null, ['parked_page', 'http_only']],
  ['failing',       'not_relay',      0.5,  'down',     null, ['http_only']],
  ['redirect-private', 'not_relay',   0.5,  'down',     null, ['http_only']],
  ['redirect-loop', 'not_relay',      0.5,  'down',     null, ['http_only']],
  ['silent',        'unreachable',    0.9,  'down',     null, ['http_only']],
]
for (const [kind, verdict, confidence, status, estimatedTier, notices] of cases) {
  test(`3.5: ${kind}: ${verdict}`, async () => {
    const detection = await run(`http://${kind}.example.org`)
    const result = detection.status === 'done' ? detection.result : null
    expect(result).toMatchObject({ verdict, confidence, status, estimatedTier })
    expect(result?.notices).toEqual([...notices, 'single_vantage'])
  })
}

test('3.5: models are sorted and at most 2,000 are shown, with their number', async () => {
  const detection = await run('http://wild.example.org')
  const { models, modelsTotal } = (detection as Extract<DetectionOutcome, { status: 'done' }>).result
  expect([models.length, modelsTotal]).toEqual([2_000, 5_000])
  expect(models).toEqual([...models].sort())
})

test('2.2, 6.5: one probe counts for its own region only', async () => {
  const { result } = (await run('http://open.example.org')) as Extract<DetectionOutcome, { status: 'done' }>
  const { cn, overseas } = result.regions
  expect(cn).toEqual({
    state: 'unknown',
    blocking: 'unknown',
    vantages: 0,
    agreeing: 0,
    checkedAtSec: null,
  })
  expect(overseas).toMatchObject({ state: 'reachable', blocking: 'none', vantages: 1, checkedAtSec: NOW_SEC })
  const down = (await run('http://gone.example.org')) as Extract<DetectionOutcome, { status: 'done' }>
  expect(down.result.regions.overseas.state).toBe('unreachable')
})

const endings = () =>
  steps.filter(({ status }) => status !== 'running').map(({ name, status, detail }) => [name, status, detail])

test('3.5: the steps of a relay, in their order', async () => {
  await run('http://new-api.example.org')
  expect(endings()).toEqual([
    ['resolve', 'ok', '1 address'],
    ['connect', 'ok', '127.0.0.2'],
    ['tls', 'skipped', 'plain http'],
    ['landing', 'ok', '200'],
    ['listing', 'ok', '401, key_required'],
    ['fingerprint', 'ok', 'new-api v1.0.0, 0.99'],
    ['network', 'ok', 'no CDN seen'],
    ['summary', 'ok', 'up'],
  ])
  const running = steps.filter(({ status }) => status === 'running').map(({ name }) => name)
  expect(running).toEqual(['resolve', 'landing', 'listing', 'fingerprint', 'network'])
})

test('3.5: the steps of a name that does not exist, and of a challenge', async () => {
  await run('http://no-such-name.example.org')
  const [first, ...rest] = endings()
  expect(first).toEqual(['resolve', 'error', 'dns_nxdomain'])
  expect(rest.map(([, status]) => status)).toEqual([...Array(6).fill('skipped'), 'error'])
  await run('http://challenge.example.org')
  expect(endings().slice(3)).toEqual([
    ['landing', 'skipped', null],
    ['listing', 'error', '403, absent, challenge'],
    ['fingerprint', 'skipped', null],
    ['network', 'ok', 'cloudflare'],
    ['summary', 'warn', 'degraded, challenge'],
  ])
})

test('3.5: failed means that we did not measure', async () => {
  world.dns.setRecords('inside.example.org', { A: ['10.0.0.1'] })
  expect(await run('http://inside.example.org')).toEqual({ status: 'failed', code: 'target_not_allowed' })
  expect(await run('http://10.0.0.1')).toEqual({ status: 'failed', code: 'target_not_allowed' })
  const late = AbortSignal.abort()
  expect(await run('http://open.example.org', late)).toEqual({ status: 'failed', code: 'deadline_exceeded' })
})

test('M5#11: texts of a relay are shown bounded, on one line', async () => {
  await run('http://new-api.example.org')
  for (const { detail } of steps) expect(detail ?? '').toMatch(/^[ -~]{0,160}$/)
})
