/** A prober with fake relays: what it sends, and what it does not. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { VisitRequest } from '../../../monitor/egress/egress.ts'
import type { ProberSite } from '../../../monitor/prober/messages.ts'
import type { ProberOptions } from '../../../monitor/prober/prober.ts'
import { eventually } from '../../helpers/eventually.ts'
import { KEY, MODELS } from '../../helpers/fake-relays.ts'
import { standStill } from '../../helpers/stand-still.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import type { Relays } from '../probe/setup.ts'
import { startRelays } from '../probe/setup.ts'
import { createSite, sites, startProber } from './setup.ts'

let world: Relays
beforeAll(async () => {
  world = await startRelays({ keyed: { kind: 'new-api', certificate: 'good' } })
})
afterAll(() => world.close())

const start = (options: Partial<ProberOptions> = {}) => startProber(world, options)
const site = (name: string, changes: Partial<ProberSite> = {}) => createSite(world, name, changes)
const nowSec = () => Math.floor(Date.now() / 1_000)

test('6.1: a new site gets a light and a full probe, and both are sent with its id', async () => {
  const { prober, getMessages } = start()
  const open = site('open')
  prober.receive(sites(open))
  await eventually(() => expect(getMessages('probe').length).toBe(2))
  expect(getMessages('probe').map(({ siteId }) => siteId)).toEqual([open.siteId, open.siteId])
  expect(new Set(getMessages('probe').map(({ probe }) => probe.kind))).toEqual(new Set(['light', 'full']))
  expect(getMessages('observation')[0]).toMatchObject({
    siteId: open.siteId,
    observation: { models: MODELS },
  })
})

test('6.5: while checked addresses do not respond, failures do not count, and it is logged once', async () => {
  const silent = world.target('silent').url
  const { prober, getMessages } = start({ connectivityUrls: [silent, silent, silent] })
  const failing = site('failing', { lastFullSec: nowSec() })
  const open = site('open', { lastFullSec: nowSec() })
  prober.receive(sites(failing, open))
  await eventually(() => expect(getMessages('log').length).toBe(1))
  await eventually(() => expect(getMessages('probe').length).toBe(2))
  const getOutcome = ({ siteId: id }: ProberSite) =>
    getMessages('probe').find(({ siteId }) => siteId === id)?.probe.outcome
  expect([getOutcome(failing), getOutcome(open)]).toEqual(['inconclusive', 'up'])
  expect(prober.metrics().hasConnectivity).toBe(false)
})

test('6.3: while its thread is stalled, no site is down', async () => {
  const context = world.context({ nowMs: Date.now })
  const egress = {
    ...{ optOut: [], denials: new Map(), handshake: context.egress.handshake, names: context.egress.names },
    visit: (request: VisitRequest) => {
      setTimeout(() => standStill(1_500), 20) // longer than every deadline of the visit
      return world.impatient.visit(request)
    },
  }
  const { prober, getMessages } = start({ context: { ...context, egress }, egress })
  prober.receive(sites(site('slow', { lastFullSec: nowSec() }))) // responds after 250 of its 400 ms
  await eventually(() => expect(getMessages('probe').length).toBe(1))
  expect(getMessages('probe')[0].probe).toMatchObject({ outcome: 'inconclusive', error: 'http_timeout' })
})

/** The relays' egress, which also counts its visits. */
function createCountingEgress() {
  const { egress } = world.context()
  const counts = { started: 0, ended: 0 }
  const visit = async (request: VisitRequest) => {
    counts.started++
    return egress.visit(request).finally(() => counts.ended++)
  }
  const { handshake, names } = egress
  const counting = { optOut: [], denials: new Map(), visit, handshake, names }
  return { counts, counting }
}

test('without sites, no request is made', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { counts, counting } = createCountingEgress()
  const { prober, sent } = start({ egress: counting, connectivityUrls: [world.target('open').url] })
  prober.receive(sites())
  vi.advanceTimersByTime(10 * 60_000)
  expect([counts.started, sent]).toEqual([0, []])
  prober.receive(sites(site('open')))
  vi.advanceTimersByTime(60_000)
  expect(counts.started).toBeGreaterThan(0) // with one, it is
})

test('a site removed during its probe has no result', async () => {
  const { counts, counting } = createCountingEgress()
  const context = world.context({ nowMs: Date.now, egress: counting })
  const { prober, sent } = start({ context, egress: counting })
  prober.receive(sites(site('silent', { lastFullSec: nowSec() })))
  await eventually(() => expect(counts.started).toBeGreaterThan(0))
  expect(counts.ended).toBe(0)
  prober.receive(sites())
  await eventually(() => expect(counts.ended).toBe(counts.started))
  await prober.close() // resolves when its runs have ended
  expect(sent).toEqual([])
})

test('8.1: a key file is read for full probes, sent over https, and a bad one is logged without its content', async () => {
  const folder = makeTemporaryFolder()
  const keyFile = { folder, name: 'site.key' }
  writeFileSync(join(folder, 'site.key'), `${KEY}\n`)
  const { prober, getMessages } = start()
  prober.receive(sites(site('keyed', { keyFile })))
  await eventually(() => expect(getMessages('observation').length).toBe(1))
  expect(getMessages('observation')[0].observation.models).toEqual(MODELS)
  writeFileSync(join(folder, 'site.key'), 'two words')
  const again = start()
  again.prober.receive(sites(site('keyed', { keyFile })))
  await eventually(() => expect(again.getMessages('observation').length).toBe(1))
  expect(again.getMessages('observation')[0].observation.models).toBe(null)
  expect(again.getMessages('log')[0].text).toContain('its key file cannot be used')
  expect(again.getMessages('log')[0].text).not.toContain('two words')
})

test('3.5: a detection is reported step by step; a cancelled one ends at once', async () => {
  const { prober, getMessages } = start()
  prober.receive({ kind: 'detect', id: 'a', url: world.target('new-api').url, slug: null })
  await eventually(() => expect(getMessages('detected').length).toBe(1))
  expect(getMessages('detected')[0]).toMatchObject({ id: 'a', failure: null, result: { verdict: 'relay' } })
  expect(getMessages('step').map(({ step }) => step.status)).toContain('running')
  prober.receive({ kind: 'detect', id: 'b', url: world.target('silent').url, slug: null })
  prober.receive({ kind: 'cancel', id: 'b' })
  await eventually(() => expect(getMessages('detected').length).toBe(2))
  expect(getMessages('detected')[1]).toMatchObject({ id: 'b', result: null, failure: 'deadline_exceeded' })
})

test('6.4: beyond two at once in one network, the others wait, and all are run', async () => {
  const { prober, getMessages } = start({ detectionsMax: 4 })
  const url = world.target('slow').url
  for (const id of ['a', 'b', 'c', 'd'])
    prober.receive({ kind: 'detect', id, url: `${url}?${id}`, slug: null })
  await eventually(() => expect(getMessages('detected').length).toBe(4))
  expect(getMessages('detected').map(({ failure }) => failure)).toEqual([null, null, null, null])
})
