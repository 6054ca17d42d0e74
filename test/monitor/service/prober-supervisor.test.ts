/**
 * The prober's thread, when it breaks: its detections end as failed, and a new thread with the same sites follows.
 *
 *     this test ── malformed message ──► prober: breaks      lost ──► detections      5 s ──► the next prober
 */
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { DetectionQueue } from '../../../monitor/detections/detection-queue.ts'
import { DetectionRunner } from '../../../monitor/detections/detection-runner.ts'
import { detectionTarget } from '../../../monitor/detections/target.ts'
import type { FromProber, ProberSite, ToProber } from '../../../monitor/prober/messages.ts'
import { ProberSupervisor } from '../../../monitor/service/prober-supervisor.ts'
import { monitorRows } from '../../../monitor/settings.ts'
import { eventually } from '../../helpers/eventually.ts'
import { type FakeRelay, startFakeRelay } from '../../helpers/fake-relays.ts'
import { soonProbed } from '../../helpers/slugs.ts'
import { FakeStore } from '../api/fake-store.ts'

const PAUSE_MS = 5_000
const HOST = 'relay.example.com'
const OTHER = 'other.example.com' // the same relay: one host is not detected twice in a minute
const CLIENT = '203.0.113.7'
const POISON = { kind: 'sites', sites: null } as unknown as ToProber // throws where it is read

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
  const messages: FromProber[] = []
  const logged: string[] = []
  const store = new FakeStore()
  const queue = new DetectionQueue({ store, nowMs: Date.now, reuseSec: 0, queueMax: 10, runningMax: 1 })
  const prober = {
    get hasThread() {
      return supervisor.hasThread
    },
    send: (message: ToProber) => supervisor.send(message),
  }
  const detections = new DetectionRunner(queue, 'main', prober, () => null)
  const { settings } = parseSettings(
    { CONNECTIVITY_CHECK_URLS: '', PROBE_INTERVAL_S: '60', ASN_DB: '' },
    monitorRows,
  )
  const supervisor = new ProberSupervisor(
    { settings, version: '1', ownHosts: [] },
    {
      log: (_, text) => logged.push(text),
      message: (message) => {
        messages.push(message)
        if (message.kind === 'step') detections.step(message)
        else if (message.kind === 'detected') detections.ended(message)
      },
      lost: () => detections.lost(),
    },
  )
  supervisor.start()
  onTestFinished(async () => {
    vi.useRealTimers()
    await supervisor.close()
  })
  return {
    ...{ supervisor, queue, detections, messages, logged },
    submit: (host: string) => queue.submit(detectionTarget(new URL(`http://${host}`)), CLIENT),
    /** Breaks the prober. From then on timers are fake: the pause passes when the test advances them. */
    poison: async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) // not before: the relay runs on this thread, too
      supervisor.send(POISON)
      await eventually(() => expect(logged).not.toEqual([]))
    },
    getState: async ({ id }: { id: string }) => {
      const { status, failure } = await queue.find(id)
      return [status, failure]
    },
  }
}

test('3.5: detections in progress when the prober fails end as failed; after 5 s a new prober runs others', async () => {
  relay.turn('silent')
  const { supervisor, queue, poison, detections, submit, getState, messages, logged } = start()
  const running = await submit(HOST)
  detections.start()
  await eventually(() => expect(messages.some(({ kind }) => kind === 'step')).toBe(true)) // the detection runs
  await poison()
  expect(logged).toEqual([expect.stringMatching(/^the prober ended, restart in 5 s: TypeError/)])
  expect(await getState(running)).toEqual(['failed', 'internal_error'])
  const { steps } = await queue.find(running.id)
  expect(steps.map(({ status }) => status)).not.toContain('running')
  vi.advanceTimersByTime(PAUSE_MS - 1)
  expect(supervisor.hasThread).toBe(false)
  const next = await submit(OTHER)
  detections.start() // as each second does
  expect(await getState(next)).toEqual(['queued', null])
  vi.advanceTimersByTime(1)
  vi.useRealTimers()
  relay.turn('open')
  detections.start()
  await eventually(() => expect(messages.some(({ kind }) => kind === 'detected')).toBe(true))
  expect(await getState(next)).toEqual(['done', null])
})

test('M6.4#4: a new prober gets the sites of the one before', async () => {
  relay.turn('open')
  const { supervisor, poison, messages } = start()
  const site: ProberSite = {
    ...{ siteId: 7, slug: soonProbed('relay', 60, 50), url: `http://${HOST}`, apiBase: `http://${HOST}` },
    ...{ extraPort: null, keyFile: null, intervalSec: null, lastFullSec: null, addresses: [], downs: 0 },
    downSinceSec: null,
  }
  const hasProbed = () => messages.some((each) => each.kind === 'probe' && each.siteId === site.siteId)
  supervisor.setSites({ kind: 'sites', sites: [site], optOut: [] })
  await eventually(() => expect(hasProbed()).toBe(true))
  await poison()
  messages.length = 0
  vi.advanceTimersByTime(PAUSE_MS)
  vi.useRealTimers()
  await eventually(() => expect(hasProbed()).toBe(true))
})

test('12: no prober is started after the monitor has ended', async () => {
  const { supervisor, poison } = start()
  await poison()
  expect(vi.getTimerCount()).toBe(1)
  await supervisor.close()
  expect(vi.getTimerCount()).toBe(0)
})
