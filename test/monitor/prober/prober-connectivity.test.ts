/** A prober whose host may have no network: how failures count then. The clock is set by the tests. */
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { Visit } from '../../../monitor/egress/egress.ts'
import type { ProberOptions } from '../../../monitor/prober/prober.ts'
import { eventually } from '../../helpers/eventually.ts'
import type { Relays } from '../probe/setup.ts'
import { startRelays } from '../probe/setup.ts'
import { createSite, detection, sites, startProber } from './setup.ts'

const MINUTE_MS = 60_000
const CHECKED = 'plain' // responds until a test turns it

let world: Relays
beforeAll(async () => {
  world = await startRelays()
})
afterAll(() => world.close())

function start(options: Partial<ProberOptions> = {}) {
  const clock = { ms: Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS }
  const { url } = world.target(CHECKED)
  const context = world.context({ nowMs: () => clock.ms })
  onTestFinished(() => world.relays[CHECKED].turn(CHECKED))
  const more = { context, connectivityUrls: [url, url, url], egress: world.impatient }
  return { clock, ...startProber(world, { ...more, ...options }) }
}

/** A prober that holds a failure: its minute has begun after the last check, and the next is a minute away. */
async function startHolding() {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const started = start()
  const { prober, clock, getMessages } = started
  prober.receive(sites(createSite(world, 'failing')))
  clock.ms += MINUTE_MS
  // One run per site at a time: when the light probe begins the full one has ended.
  await eventually(() => expect(prober.metrics().starts).toBe(2))
  expect(getMessages('probe')).toEqual([])
  return started
}

test('3.5: while checked addresses are silent, a detection of a down site fails, with and without sites', async () => {
  world.relays[CHECKED].turn('silent')
  const { prober, getMessages, clock } = start()
  const detect = async (id: string, name: string) => {
    prober.receive(detection(world, id, name))
    await eventually(() => expect(getMessages('detected').at(-1)?.id).toBe(id))
    return getMessages('detected').at(-1)
  }
  expect(await detect('a', 'reset')).toMatchObject({ result: null, failure: 'internal_error' })
  expect(getMessages('log')).toHaveLength(1)
  expect(await detect('b', 'new-api')).toMatchObject({ result: { verdict: 'relay' }, failure: null })

  world.relays[CHECKED].turn(CHECKED)
  clock.ms += MINUTE_MS // the next minute does not count either
  expect(await detect('c', 'reset')).toMatchObject({ result: null, failure: 'internal_error' })
  clock.ms += MINUTE_MS
  expect(await detect('d', 'reset')).toMatchObject({ result: { verdict: 'unreachable' }, failure: null })
})

test('3.5: the check requested by a failed detection counts, also when the next minute has begun', async () => {
  world.relays[CHECKED].turn('silent')
  const { prober, getMessages, clock } = start({
    send: (message) => {
      if (message.kind === 'step' && message.step.name === 'summary') clock.ms += MINUTE_MS
    },
  })
  prober.receive(detection(world, 'a', 'reset'))
  await eventually(() => expect(getMessages('detected').length).toBe(1))
  expect(getMessages('detected')[0]).toMatchObject({ result: null, failure: 'internal_error' })
})

test('3.5: a detection that is cancelled during its connectivity check ends at once', async () => {
  let isAsking = false
  const visit = () => {
    isAsking = true
    return new Promise<Visit>(() => {}) // until the end of the test
  }
  const { prober, getMessages } = start({ egress: { visit, denials: new Map(), optOut: [] } })
  prober.receive(detection(world, 'a', 'reset'))
  await eventually(() => expect(isAsking).toBe(true))
  prober.receive({ kind: 'cancel', id: 'a' })
  await eventually(() => expect(getMessages('detected').length).toBe(1))
  expect(getMessages('detected')[0]).toMatchObject({ result: null, failure: 'deadline_exceeded' })
})

// biome-ignore format: the columns are the specification
const cases = [
  // the check of its minute -> outcome sent, observations sent
  [CHECKED,  'down',         1],
  ['silent', 'inconclusive', 0],
] as const
for (const [name, outcome, observations] of cases) {
  test(`6.5: a failure waits for the connectivity check of its minute: ${name}, so it is ${outcome}`, async () => {
    const { getMessages } = await startHolding()
    world.relays[CHECKED].turn(name)
    vi.advanceTimersByTime(MINUTE_MS)
    await eventually(() => expect(getMessages('probe').length).toBe(2))
    expect(getMessages('probe').map(({ probe }) => probe.outcome)).toEqual([outcome, outcome])
    expect(getMessages('observation')).toHaveLength(observations)
  })
}

test('6.5: a failure that is pending at the end is published as known so far', async () => {
  const { prober, getMessages } = await startHolding()
  await prober.close()
  expect(getMessages('probe')[0]).toMatchObject({ probe: { outcome: 'down' } })
})

test('6.5: a failure that is pending when its site is removed is not published', async () => {
  const { prober, getMessages } = await startHolding()
  prober.receive(sites())
  await prober.close()
  expect(getMessages('probe')).toEqual([])
})
