/** Messages that change what a prober does: opt-outs, online vantages; and incomplete full probes. */
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { Egress } from '../../../monitor/egress/egress.ts'
import type { ProbeContext } from '../../../monitor/probe/probe.ts'
import { inTurn } from '../../../monitor/scheduler/schedule.ts'
import { eventually } from '../../helpers/eventually.ts'
import type { Relays } from '../probe/setup.ts'
import { startRelays } from '../probe/setup.ts'
import { createSite, detection, INTERVAL_SEC, sites, startProber } from './setup.ts'

const INTERVAL_MS = INTERVAL_SEC * 1_000

let world: Relays
beforeAll(async () => {
  world = await startRelays()
})
afterAll(() => world.close())

test('5: a host that opts out is neither visited nor detected until the opt-out is removed', async () => {
  const egress = world.context().egress as Egress
  onTestFinished(() => {
    egress.optOut = []
  })
  const { prober, getMessages } = startProber(world)
  const site = createSite(world, 'open', { lastFullSec: Math.floor(Date.now() / 1_000) })
  const detect = async (id: string) => {
    prober.receive(detection(world, id, 'open'))
    await eventually(() => expect(getMessages('detected').at(-1)?.id).toBe(id))
    return getMessages('detected').at(-1)
  }
  expect(await detect('a')).toMatchObject({ failure: null })

  const { connections } = world.relays.open
  prober.receive({ kind: 'sites', sites: [site], optOut: ['open.example.org'] })
  await eventually(() => expect(getMessages('probe').length).toBe(1))
  expect(getMessages('probe')[0].probe).toMatchObject({ httpStatus: null, error: 'target_not_allowed' })
  expect(await detect('b')).toMatchObject({ result: null, failure: 'target_not_allowed' })
  expect(world.relays.open.connections).toBe(connections)

  prober.receive(sites(site))
  expect(await detect('c')).toMatchObject({ failure: null })
})

const SLOTS = 6
const FIRST_SLOT = 29_833_334 // of the epoch

// biome-ignore format: the columns are the specification
const cases = [
  // online in its region -> slots of six that it probes
  [null,                      6], // no list received yet
  [[],                        6],
  [['main', 'other'],         6], // two: both probe each slot
  [['main', 'other', 'last'], 4], // more: two of them, in rotation
] as const
for (const [online, count] of cases) {
  test(`6.5: with ${online?.join(', ') || (online ? 'none' : 'an unknown list')} online it probes ${count} slots of six`, async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    vi.spyOn(Math, 'random').mockReturnValue(0.5) // no jitter: one probe per slot
    onTestFinished(() => {
      vi.useRealTimers()
      vi.restoreAllMocks()
    })
    const startedMs = performance.now()
    const middleMs = (FIRST_SLOT + 0.5) * INTERVAL_MS
    const nowMs = () => middleMs + performance.now() - startedMs
    const { prober, getMessages } = startProber(world, { context: world.context({ nowMs }) })
    const site = createSite(world, 'open', { lastFullSec: Math.floor(nowMs() / 1_000) })
    if (online) prober.receive({ kind: 'turns', online: [...online], isSingleVantage: false })
    prober.receive(sites(site))

    const hasProbed: boolean[] = []
    for (let i = 0; i < SLOTS; i++) {
      const { starts } = prober.metrics()
      vi.advanceTimersByTime(i === 0 ? 2_000 : INTERVAL_MS) // its first probe is due at once
      hasProbed.push(prober.metrics().starts > starts)
      await eventually(() => expect(getMessages('probe').length).toBe(prober.metrics().starts))
    }
    const all = Array.from({ length: SLOTS }, (_, i) => FIRST_SLOT + i)
    const isOwnSlot = (slot: number) => !online?.length || inTurn(site.slug, slot, online).includes('main')
    expect(hasProbed).toEqual(all.map(isOwnSlot))
    expect(hasProbed.filter(Boolean)).toHaveLength(count)
  })
}

test('6.5: a detection reports a single vantage until others are online', async () => {
  const { prober, getMessages } = startProber(world)
  const detectNotices = async (id: string) => {
    prober.receive(detection(world, id, 'new-api'))
    await eventually(() => expect(getMessages('detected').at(-1)?.id).toBe(id))
    return getMessages('detected').at(-1)?.result?.notices
  }
  expect(await detectNotices('a')).toContain('single_vantage')
  prober.receive({ kind: 'turns', online: ['main', 'other'], isSingleVantage: false })
  expect(await detectNotices('b')).not.toContain('single_vantage')
  prober.receive({ kind: 'turns', online: ['main'], isSingleVantage: true })
  expect(await detectNotices('c')).toContain('single_vantage')
})

test('6.2: a full probe that a stall left incomplete is made again within 33 minutes', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { egress } = world.context()
  const stalled: ProbeContext['egress'] = {
    visit: async (request) => {
      const visit = await egress.visit(request)
      return request.url.endsWith('/api/status')
        ? { ...visit, error: 'http_timeout', hasStalled: true }
        : visit
    },
    handshake: (request) => egress.handshake(request),
    names: (host, signal) => egress.names(host, signal),
  }
  const { prober, getMessages } = startProber(world, {
    context: world.context({ egress: stalled, nowMs: Date.now }),
  })
  const fullProbes = () => getMessages('probe').filter(({ probe }) => probe.kind === 'full')
  prober.receive(sites(createSite(world, 'open')))
  vi.advanceTimersByTime(2_000)
  await eventually(() => expect(fullProbes().length).toBe(1))
  expect([fullProbes()[0].probe.outcome, getMessages('observation')]).toEqual(['up', []])
  vi.advanceTimersByTime(33 * 60_000)
  await eventually(() => expect(fullProbes().length).toBe(2))
})
