/** What a probe finds while its own thread is stalled: the relay has responded, and the response has not been read. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { NO_ASN_TABLE } from '../../../monitor/probe/asn.ts'
import { detect } from '../../../monitor/probe/detect.ts'
import { fullProbe } from '../../../monitor/probe/full.ts'
import { lightProbe, type ProbeContext, type ProbeTarget } from '../../../monitor/probe/probe.ts'
import { standStill } from '../../helpers/stand-still.ts'
import { ok } from '../egress/raw-server.ts'
import type { World } from '../egress/setup.ts'
import { startWorld } from '../egress/setup.ts'

const STALL_MS = 600
const STALL_LIMIT_MS = 300 // instead of 1,000: the stalls here are certain, so they may be short
let world: World
beforeAll(async () => {
  world = await startWorld()
  const respond = ok('{"data":[{"id":"a"}]}', 'content-type: application/json\r\n')
  world.relay.on('/v1/models', (socket, request) => {
    respond(socket, request) // written to the socket before the stall
    setImmediate(() => standStill(STALL_MS))
  })
  world.relay.on('/silent/v1/models', () => {})
  world.relay.on('/open/v1/models', respond)
})
afterAll(() => world.close())

const probe = async (path: string, firstByteMs: number, slowMs: number) => {
  const limits = path === '/' ? { firstByteMs, stallMs: STALL_LIMIT_MS } : { firstByteMs }
  const egress = world.egress({ limits })
  const context: ProbeContext = { egress, asn: NO_ASN_TABLE, nowMs: Date.now, slowMs }
  const url = world.url(path)
  const attempt = await lightProbe(context, { url, apiBase: url, purpose: 'catalogue' })
  return [attempt.probe.outcome, attempt.probe.error]
}

// biome-ignore format: a table
const cases = [
  // what the stall does,             path,      first byte, slow after → outcome, error
  ['outlasts the deadline',           '/',               400,      60_000, 'inconclusive', 'http_timeout'],
  ['makes the response look slow',      '/',            20_000,         500, 'inconclusive', 'slow'],
  ['changes nothing that counts',     '/',            20_000,      60_000, 'up',           null],
  ['is not there',                    '/silent/',        400,      60_000, 'down',         'http_timeout'],
] as const
for (const [what, path, firstByteMs, slowMs, outcome, error] of cases) {
  test(`6.3: a stall that ${what}: ${outcome}`, async () => {
    expect(await probe(path, firstByteMs, slowMs)).toEqual([outcome, error])
  })
}

/** A relay whose listing is open; its other paths respond with 404. */
function openRelay(changes: Partial<ProbeContext['egress']> = {}, limits = {}) {
  const real = world.egress({ limits: { firstByteMs: 400, ...limits } })
  const egress: ProbeContext['egress'] = {
    visit: (request) => real.visit(request),
    handshake: (request) => real.handshake(request),
    names: (host, signal) => real.names(host, signal),
    ...changes,
  }
  const url = world.url('/open/')
  const context: ProbeContext = { egress, asn: NO_ASN_TABLE, nowMs: Date.now, slowMs: 60_000 }
  const target: ProbeTarget = { url, apiBase: url, purpose: 'catalogue' }
  return { real, url, context, target }
}
const request = { region: 'overseas', isSingleVantage: true } as const

test('6.2: a request of a full probe fails during a stall: the outcome stands, nothing is observed', async () => {
  world.relay.on('/api/status', () => void setImmediate(() => standStill(STALL_MS)))
  const { context, target, url } = openRelay({}, { stallMs: STALL_LIMIT_MS })
  const full = await fullProbe(context, target)
  expect(full).toMatchObject({ probe: { outcome: 'up' }, observation: null, isIncomplete: true })
  expect(await detect(context, { ...request, url })).toEqual({ status: 'failed', code: 'internal_error' })
})

test('6.2: the same request fails without a stall: the observation is complete', async () => {
  world.relay.on('/api/status', () => {})
  const { context, target, url } = openRelay()
  const full = await fullProbe(context, target)
  expect(full).toMatchObject({ observation: { models: ['a'] }, isIncomplete: false })
  expect(await detect(context, { ...request, url })).toMatchObject({ status: 'done' })
})

test('6.2: a lookup of names that fails during a stall: nothing is observed', async () => {
  for (const [hasFailed, hasStalled] of [
    [true, true],
    [true, false],
    [false, true],
  ]) {
    const { context, target } = openRelay({
      names: async () => ({ cnames: [], nameservers: [], hasFailed, hasStalled }),
    })
    const { isIncomplete, observation } = await fullProbe(context, target)
    expect([isIncomplete, observation === null]).toEqual([hasFailed && hasStalled, hasFailed && hasStalled])
  }
})

test('6.3: a handshake during a stall: neither its own failure nor that of the listing counts', async () => {
  const { real, context, target } = openRelay({
    handshake: async (request) => ({ ...(await real.handshake(request)), hasStalled: true }),
  })
  const apiBase = world.url('/missing/')
  const missing = await fullProbe(context, { ...target, apiBase })
  expect(missing.probe).toMatchObject({ outcome: 'inconclusive', error: 'http_4xx' })
  expect(missing.isIncomplete).toBe(false)

  const closed = openRelay({
    handshake: async (request) => ({
      ...(await real.handshake(request)),
      error: 'tls_reset',
      hasStalled: true,
    }),
  })
  const failed = await fullProbe(closed.context, closed.target)
  expect(failed.probe).toMatchObject({ outcome: 'inconclusive', error: 'tls_reset' })
  expect([failed.observation, failed.isIncomplete]).toEqual([null, true])
})
