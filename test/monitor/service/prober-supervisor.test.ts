/**
 * The prober's thread, the real one, when it breaks: what it ran ends as failed, and another follows that knows the sites.
 *
 *     this test ── a message that is none ──► prober: breaks      lost ──► detections      5 s ──► the next prober
 */
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { DetectionQueue } from '../../../monitor/detections/detection-queue.ts'
import { DetectionRunner } from '../../../monitor/detections/detection-runner.ts'
import { detectionTarget } from '../../../monitor/detections/target.ts'
import type { FromProber, ProberSite, ToProber } from '../../../monitor/prober/messages.ts'
import { ProberSupervisor } from '../../../monitor/service/prober-supervisor.ts'
import { type FakeRelay, startFakeRelay } from '../../helpers/fake-relays.ts'
import { soonProbed } from '../../helpers/slugs.ts'
import { FakeStore } from '../api/fake-store.ts'

const PAUSE_MS = 5_000
const HOST = 'relay.example.com'
const OTHER = 'other.example.com' // the same relay; one host is not looked at twice in a minute
const CLIENT = '203.0.113.7'
const POISON = { kind: 'sites', sites: null } as unknown as ToProber // breaks whoever reads it

let relay: FakeRelay
beforeAll(async () => {
  relay = await startFakeRelay('open')
  vi.stubEnv('EGRESS_TEST_ALLOW', '127.0.0.2') // threads get a copy of the environment
  const hosts = [HOST, OTHER].map((host) => `${host}=127.0.0.2:${relay.port}`)
  vi.stubEnv('EGRESS_TEST_HOSTS', hosts.join(','))
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await relay.close()
})

function start() {
  const told: FromProber[] = []
  const logged: string[] = []
  const store = new FakeStore()
  const desk = new DetectionQueue({ store, nowMs: Date.now, reuseSec: 0, queueMax: 10, runningMax: 1 })
  const prober = {
    get isThere() {
      return host.isThere
    },
    send: (message: ToProber) => host.send(message),
  }
  const detections = new DetectionRunner(desk, 'main', prober, () => null)
  const { settings } = parseSettings({ CONNECTIVITY_CHECK_URLS: '', PROBE_INTERVAL_S: '60', ASN_DB: '' })
  const host = new ProberSupervisor(
    { settings, version: '1', ownHosts: [] },
    {
      log: (_, text) => logged.push(text),
      message: (message) => {
        told.push(message)
        if (message.kind === 'step') detections.step(message)
        else if (message.kind === 'detected') detections.ended(message)
      },
      lost: () => detections.lost(),
    },
  )
  host.start()
  onTestFinished(async () => {
    vi.useRealTimers()
    await host.close()
  })
  return {
    ...{ host, desk, detections, told, logged },
    submit: (host: string) => desk.submit(detectionTarget(new URL(`http://${host}`)), CLIENT),
    /** The prober breaks, and from then on time stands still here: the pause passes when the test says so. */
    poison: async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) // not before: the relay lives here, too
      host.send(POISON)
      while (logged.length === 0) await turn() // not `vi.waitFor`: while it looks, it moves the timers
    },
    stateOf: async ({ id }: { id: string }) => {
      const { status, failure } = await desk.find(id)
      return [status, failure]
    },
  }
}

const has = (isSo: () => boolean) => vi.waitFor(() => expect(isSo()).toBe(true), { timeout: 10_000 })

test('3.5: detections that ran when the prober broke end as failed; after 5 s the next one runs others', async () => {
  relay.turn('silent')
  const { host, desk, poison, detections, submit, stateOf, told, logged } = start()
  const running = await submit(HOST)
  detections.start()
  await has(() => told.some(({ kind }) => kind === 'step')) // it has begun
  await poison()
  expect(logged).toEqual([expect.stringMatching(/^the prober ended, another follows in 5 s: TypeError/)])
  expect(await stateOf(running)).toEqual(['failed', 'internal_error'])
  const { steps } = await desk.find(running.id)
  expect(steps.map(({ status }) => status)).not.toContain('running')
  vi.advanceTimersByTime(PAUSE_MS - 1)
  expect(host.isThere).toBe(false)
  const next = await submit(OTHER)
  detections.start() // as each second does
  expect(await stateOf(next)).toEqual(['queued', null])
  vi.advanceTimersByTime(1)
  vi.useRealTimers()
  relay.turn('open')
  detections.start()
  await has(() => told.some(({ kind }) => kind === 'detected'))
  expect(await stateOf(next)).toEqual(['done', null])
})

test('M6.4#4: the next prober is given the sites that the one before had', async () => {
  relay.turn('open')
  const { host, poison, told } = start()
  const site: ProberSite = {
    ...{ siteId: 7, slug: soonProbed('relay', 60), url: `http://${HOST}`, apiBase: `http://${HOST}` },
    ...{ extraPort: null, keyFile: null, intervalSec: null, lastFullSec: null, addresses: [], downs: 0 },
    downSinceSec: null,
  }
  const hasProbed = () => told.some((each) => each.kind === 'probe' && each.siteId === site.siteId)
  host.setSites({ kind: 'sites', sites: [site], optOut: [] })
  await has(hasProbed)
  await poison()
  told.length = 0
  vi.advanceTimersByTime(PAUSE_MS)
  vi.useRealTimers()
  await has(hasProbed)
})

test('12: one that broke is not followed by another once the monitor ends', async () => {
  const { host, poison } = start()
  await poison()
  expect(vi.getTimerCount()).toBe(1)
  await host.close()
  expect(vi.getTimerCount()).toBe(0)
})
