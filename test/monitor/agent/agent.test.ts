/** An agent with its prober and its buffer, between a relay and a server. */
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Agent } from '../../../monitor/agent/agent.ts'
import type { Measured, ResultBuffer } from '../../../monitor/agent/buffer.ts'
import { POLL_PATH, type PollResponse, RESULTS_PATH, SEQUENCE_MAX } from '../../../monitor/agent/wire.ts'
import { AgentClient } from '../../../monitor/egress/agent-client.ts'
import type { Prober } from '../../../monitor/prober/prober.ts'
import { getSlotNumber, inTurn } from '../../../monitor/scheduler/schedule.ts'
import { eventually } from '../../helpers/eventually.ts'
import { startFakeRelay } from '../../helpers/fake-relays.ts'
import { NOW_SEC, result, type Server, startServer, startTestAgent } from './setup.ts'

async function startRelay() {
  const relay = await startFakeRelay('new-api')
  onTestFinished(() => relay.close())
  return relay
}

/** Sites probed each second, of a time that passes only in `probeUntil`. Must come before the agent. */
function setSites(server: Server): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  server.setSites({ intervalSec: 1 })
}

const PROBE_MS = 1_200 // one interval with its jitter: each site is due once, and not again before its probe has ended

/** Lets probes take place until `isDone`. */
async function probeUntil(buffer: ResultBuffer, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    const before = buffer.count
    vi.advanceTimersByTime(PROBE_MS)
    await eventually(() => expect(buffer.count).toBeGreaterThan(before))
  }
}

function getStartsCount(agent: Agent): number {
  return (agent as unknown as { prober: Prober }).prober.metrics().starts
}

test('6.5: an agent polls, probes and sends results; a second round receives no catalogue', async () => {
  const relay = await startRelay()
  const server = await startServer()
  const token = await server.create('shanghai')
  setSites(server)
  const { agent, buffer } = startTestAgent(server, token, relay.port)
  expect(await agent.round()).toBe(10_000)
  await probeUntil(buffer, () => buffer.count >= 2)
  await agent.round()
  const rows = await server.rows()
  expect(rows[0]).toMatchObject({
    vantage: 'shanghai',
    outcome: 'up',
    at: Math.floor(server.clock.ms / 1_000),
  })
  expect(new Set(rows.map(({ slug }) => slug))).toEqual(new Set(['other', 'relay']))
  expect(relay.requests).toContain('/v1/models')
  expect(relay.requests).not.toContain('/api/status') // no full probes: nothing of them would be kept
  expect(agent.metrics()).toMatchObject({ refused: 0, dropped: 0, lost: 0 })
  expect(agent.metrics().sent).toBeGreaterThanOrEqual(2)

  const url = 'http://relay.example.org'
  const relayOnly = { siteId: server.ids.relay, slug: 'relay', url, apiBase: url, extraPort: null }
  server.api.setSites([{ ...relayOnly, intervalSec: 1, regions: ['cn'] }], ['example.net'])
  await agent.round() // receives the new sites; sends what it had
  await agent.round()
  await probeUntil(buffer, () => buffer.count >= 3)
  expect(new Set(buffer.first(100).map(({ measured }) => measured.slug))).toEqual(new Set(['relay']))
})

test('6.5: a failed connection is reported with its address, a successful one without', async () => {
  const relay = await startRelay()
  const server = await startServer()
  const token = await server.create('shanghai')
  setSites(server)
  const { agent, buffer } = startTestAgent(server, token, relay.port)
  await agent.round()
  await probeUntil(buffer, () => buffer.count >= 2)
  expect(buffer.first(2).map(({ measured }) => [measured.outcome, measured.address])).toEqual([
    ['up', undefined],
    ['up', undefined],
  ])
  await relay.close()
  const failed = () =>
    buffer.first(500).flatMap(({ measured }) => (measured.error === 'connect_refused' ? [measured] : []))
  await probeUntil(buffer, () => failed().length > 0)
  expect(failed()[0].address).toBe('127.0.0.2')
  server.clock.ms += 60_000 // the clock stands still, and of one second the server takes one result
  const laterSec = Math.floor(server.clock.ms / 1_000)
  await probeUntil(buffer, () => failed().some(({ at_s }) => at_s === laterSec))
  await agent.round()
  await server.store.flush()
  const rows = server.database.all('SELECT DISTINCT error, address FROM probe_raw ORDER BY error')
  expect(rows).toContainEqual({ error: null, address: null })
  expect(rows).toContainEqual({ error: 'connect_refused', address: '127.0.0.2' })
})

test('6.5: while the server is unreachable results are kept; each is stored once afterwards', async () => {
  const relay = await startRelay()
  const server = await startServer()
  const token = await server.create('shanghai')
  setSites(server)
  const { agent, buffer, logged } = startTestAgent(server, token, relay.port)
  await agent.round()
  server.server.port!.close()
  await probeUntil(buffer, () => buffer.count >= 2)
  const pauses = [await agent.round(), await agent.round(), await agent.round(), await agent.round()]
  for (const [i, pauseMs] of pauses.entries()) {
    const plainMs = Math.min(60_000, 10_000 * 2 ** i)
    expect([pauseMs >= plainMs * 0.8, pauseMs <= plainMs * 1.2]).toEqual([true, true])
  }
  expect(logged).toHaveLength(1)
  expect(logged[0]).toMatch(/^warning: 127\.0\.0\.1:\d+: connect_refused: ECONNREFUSED\. Results are kept/)
  relay.turn('failing')
  const before = buffer.count
  await probeUntil(buffer, () => buffer.count > before)
  const kept = buffer.first(500)

  server.open()
  expect(await agent.round()).toBe(10_000)
  expect(logged.at(-1)).toMatch(/^info: 127\.0\.0\.1:\d+ responds again$/)
  const stored = await server.rows()
  const ofOneSecond = new Set(kept.map(({ measured }) => `${measured.slug} ${measured.at_s}`)) // the clock stands still
  expect(stored.map(({ slug, at }) => `${slug} ${at}`)).toEqual(expect.arrayContaining([...ofOneSecond]))
  expect(buffer.first(1)[0]?.row ?? 1e9).toBeGreaterThan(kept.at(-1)!.row)
})

/** `count` results of one site, a second apart, the newest first. */
function fill(buffer: ResultBuffer, count: number): void {
  for (let i = 0; i < count; i++) buffer.add(measured(NOW_SEC - i))
}

function measured(atSec: number): Measured {
  const { sequence: _, ...rest } = result(1, { at_s: atSec })
  return rest
}

test('6.5: results whose response is lost are sent again and stored once', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const client = new AgentClient({ server: server.url(), token, version: '1.0.0' })
  let isLosing = true
  const post: AgentClient['post'] = async (path, value, signal) => {
    const response = await client.post(path, value, signal)
    if (path === RESULTS_PATH && isLosing) throw new Error('the connection broke')
    return response
  }
  const { agent, buffer } = startTestAgent(server, token, 9, { client: { base: client.base, post } })
  fill(buffer, 2)
  await agent.round()
  expect([buffer.count, (await server.rows()).length]).toEqual([2, 2])
  isLosing = false
  fill(buffer, 3)
  await agent.round()
  expect(buffer.count).toBe(0)
  expect(await server.rows()).toHaveLength(3)
  // Two of them came twice, with new numbers: the store, not the API, recognizes the second as the same probe.
  expect(server.api.metrics()).toMatchObject({ stored: 7, repeated: 0, refused: 0 })
})

test('6.5: a client with a stolen token cannot empty the buffer of the agent', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const client = new AgentClient({ server: server.url(), token, version: '1.0.0' })
  let isRacing = false
  const post: AgentClient['post'] = async (path, value, signal) => {
    // Right before the agent's own results: its numbers are used up as they arrive.
    if (path === RESULTS_PATH && isRacing) await server.results(token, [result(1_400, { slug: 'unlisted' })])
    isRacing = false
    return client.post(path, value, signal)
  }
  const { agent, buffer, logged } = startTestAgent(server, token, 9, { client: { base: client.base, post } })
  fill(buffer, 2)
  await agent.round()
  expect([buffer.count, logged]).toEqual([0, []])

  const start = NOW_SEC - 1_000
  for (let i = 0; i < 700; i++) buffer.add(measured(start + i))
  expect(await server.results(token, [result(600, { slug: 'unlisted' })])).toMatchObject({ accepted: 600 })
  isRacing = true
  await agent.round()
  expect(buffer.count).toBe(0)
  expect(await server.rows()).toHaveLength(702)
  expect(logged).toEqual([
    expect.stringMatching(
      /^error: 127\.0\.0\.1:\d+: another client sends results with the token of this agent\. Unless a second/,
    ),
  ])

  // A server that reports the highest number possible makes the agent forget nothing either.
  const far = {
    ...(await client.post(POLL_PATH, { catalogue: null, clock_ms: 0 }, new AbortController().signal)),
  }
  far.json = { ...(far.json as PollResponse), accepted: SEQUENCE_MAX }
  const base = client.base
  const { agent: other, buffer: waiting } = startTestAgent(server, token, 9, {
    client: {
      base,
      post: async (path, value, signal) => (path === POLL_PATH ? far : client.post(path, value, signal)),
    },
  })
  fill(waiting, 2)
  await other.round()
  fill(waiting, 3)
  expect(waiting.count).toBe(5)
})

/** Why a batch of the agent does not reach the store, while another client holds the same token. */
const failures: [title: string, failBatch: (poll: () => Promise<number>) => Promise<void>][] = [
  [
    'gets status 429',
    async (poll) => {
      while ((await poll()) !== 429);
    },
  ],
  [
    'is lost on its way to the server',
    async () => {
      throw new Error('the connection broke')
    },
  ],
]

test.each(failures)('6.5: a batch that %s survives a stolen token', async (_, failBatch) => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const client = new AgentClient({ server: server.url(), token, version: '1.0.0' })
  const poll = async () => {
    const request = { catalogue: null, clock_ms: server.clock.ms }
    return (await client.post(POLL_PATH, request, new AbortController().signal)).status
  }
  let isFailing = true
  const post: AgentClient['post'] = async (path, value, signal) => {
    if (path === RESULTS_PATH && isFailing) await failBatch(poll)
    return client.post(path, value, signal)
  }
  const { agent, buffer } = startTestAgent(server, token, 9, { client: { base: client.base, post } })
  fill(buffer, 500)
  await agent.round()
  expect([buffer.count, await server.rows()]).toEqual([500, []])
  isFailing = false
  server.clock.ms += 60_000 // the token has its requests of the next minute
  // The number which the server would have accepted last, had it received the batch.
  expect(await server.results(token, [result(500, { slug: 'unlisted' })])).toMatchObject({ accepted: 500 })
  await agent.round()
  expect(await server.rows()).toHaveLength(500)
  expect(buffer.count).toBe(0)
})

test('6.5: a long backlog goes in batches of 500, ten per round, and refusals are logged', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const { agent, buffer, logged } = startTestAgent(server, token, 9, { rowsMax: 10_000 })
  for (let i = 0; i < 5_600; i++) {
    const { sequence: _, ...measured } = result(1, { at_s: NOW_SEC - i, slug: i === 7 ? 'gone' : 'relay' })
    buffer.add(measured)
  }
  await agent.round()
  expect(buffer.count).toBe(600)
  await agent.round()
  expect(buffer.count).toBe(0)
  expect(agent.metrics()).toMatchObject({ sent: 5_599, refused: 1 })
  expect(logged).toContain(
    'warning: 1 results were refused, the first for this reason: unknown_site: not in the catalogue of this agent',
  )
  expect(await server.rows()).toHaveLength(5_599)
})

test('6.5: a revoked agent stops probing and keeps its results', async () => {
  const relay = await startRelay()
  const server = await startServer()
  const token = await server.create('shanghai')
  setSites(server)
  const { agent, buffer, logged } = startTestAgent(server, token, relay.port)
  await agent.round()
  await probeUntil(buffer, () => buffer.count >= 1)
  await server.revoke('shanghai')
  await agent.round()
  expect(logged.at(-1)).toMatch(/^error: .* status 401\. Probing stops until the token is accepted/)
  expect(agent.metrics().waiting).toBeGreaterThanOrEqual(1)
  const startsBefore = getStartsCount(agent)
  vi.advanceTimersByTime(10 * PROBE_MS)
  expect([startsBefore > 0, getStartsCount(agent)]).toEqual([true, startsBefore])
  expect(await server.rows()).toEqual([])
})

for (const aheadMs of [600_000, -600_000]) {
  test(`6.5: an agent whose clock is ${aheadMs / 60_000} min ahead has its results corrected by the server`, async () => {
    const relay = await startRelay()
    const server = await startServer()
    const token = await server.create('shanghai')
    setSites(server)
    const nowMs = () => server.clock.ms + aheadMs
    const { agent, buffer, logged } = startTestAgent(server, token, relay.port, { nowMs })
    await agent.round()
    expect(logged).toEqual([
      `warning: this clock is 600 s ${aheadMs > 0 ? 'ahead of' : 'behind'} the server's, which corrects the times of results`,
    ])
    await probeUntil(buffer, () => buffer.count >= 2)
    expect(buffer.first(1)[0].measured.at_s).toBe(Math.floor(nowMs() / 1_000))
    await agent.round()
    expect((await server.rows())[0].at).toBe(Math.floor(server.clock.ms / 1_000))
    expect(logged).toHaveLength(1)
  })
}

test('6.5: of three vantages of a region, two probe in each slot, by the clock of the server', async () => {
  const sites = [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `more-${i}`)
  const relay = await startRelay()
  const server = await startServer({}, sites)
  const tokens = [await server.create('a'), await server.create('b'), await server.create('c')]
  setSites(server)
  for (const token of tokens) await server.poll(token)
  // The clocks stand still, so it is the same slot all the time; the agent's own clock is in another.
  const nowMs = () => server.clock.ms + 3_000
  const { agent, buffer } = startTestAgent(server, tokens[0], relay.port, { nowMs })
  const slot = getSlotNumber(server.clock.ms / 1_000, 1)
  const mine = sites.filter((slug) => inTurn(slug, slot, ['a', 'b', 'c']).includes('a'))
  expect([mine.length > 0, mine.length < sites.length]).toEqual([true, true])
  await agent.round()
  const probed = () => new Set(buffer.first(1_000).map(({ measured }) => measured.slug))
  await probeUntil(buffer, () => buffer.count >= 3 * mine.length)
  expect(probed()).toEqual(new Set(mine))
})

test('6.5: a catalogue that does not match its hash is not probed', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  let json: unknown
  const client = {
    base: new URL('http://server'),
    post: async () => ({ status: 200, retryAfterSec: 0, json }),
  }
  const { agent, logged } = startTestAgent(server, token, 9, { client })
  const roundWith = async (next: unknown) => {
    json = next
    await agent.round()
    return logged.at(-1)
  }
  const catalogue = '0'.repeat(64)
  const content = { sites: [], opt_out: [] }
  const response = {
    vantage: 'shanghai',
    clock_ms: server.clock.ms,
    interval_s: 300,
    accepted: 0,
    online: [],
  }
  const wrong = /the catalogue received does not match its hash/
  expect(await roundWith({ ...response, catalogue, content })).toMatch(wrong)
  expect(await roundWith({ ...response, catalogue })).toMatch(/invalid response: the body must have content/)
  expect(await roundWith({ ...response, catalogue, content: null })).toMatch(wrong)
  expect(await roundWith('<html>')).toMatch(/invalid response: the body must be an object/)
})

test('6.5: a result that the server refuses by itself is dropped once a later one is taken', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites({ intervalSec: 60 })
  const client = new AgentClient({ server: server.url(), token, version: '1.0.0' })
  let refused = (slug: string): boolean => slug === 'bad'
  let status = 413
  const sizes: number[] = []
  const post: AgentClient['post'] = async (path, value, signal) => {
    const { results = [] } = value as { results?: { slug: string }[] }
    if (path === RESULTS_PATH) sizes.push(results.length)
    if (results.some(({ slug }) => refused(slug))) return { status, retryAfterSec: 0, json: undefined }
    return client.post(path, value, signal)
  }
  const { agent, buffer, logged } = startTestAgent(server, token, 9, { client: { base: client.base, post } })
  for (let i = 0; i < 600; i++)
    buffer.add({ ...measured(NOW_SEC - 100 * i), ...([200, 201, 599].includes(i) && { slug: 'bad' }) })
  for (let i = 0; i < 4 && buffer.count > 1; i++) await agent.round()
  expect(buffer.first(9).map(({ measured }) => measured.slug)).toEqual(['bad']) // none came after it
  expect(sizes.length).toBeLessThan(100)
  expect(agent.metrics()).toMatchObject({ refused: 2 })
  expect(logged.filter((line) => line.includes('refused by themselves'))).toEqual([
    'warning: 2 results were refused by themselves and are dropped',
  ])

  status = 400
  refused = () => true // so no result is to blame
  fill(buffer, 20)
  await agent.round()
  expect(buffer.count).toBe(21)
  refused = () => false
  await agent.round()
  expect(buffer.count).toBe(0)
})
