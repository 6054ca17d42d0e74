/** The HTTP API for agents: valid requests, invalid ones, and requests without a valid token. */
import { expect, test } from 'vitest'
import { REQUESTS_PER_MINUTE_MAX } from '../../../monitor/agent/authenticator.ts'
import {
  BUFFERED_ROWS_MAX,
  hashContent,
  POLL_PATH,
  RESULTS_PATH,
  SEQUENCE_MAX,
} from '../../../monitor/agent/wire.ts'
import { NOW_SEC, result, startServer } from './setup.ts'

test('6.5: a poll returns the sites of its region, and only when the hash differs', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  const early = await server.request(POLL_PATH, { catalogue: null, clock_ms: 0 }, { token })
  expect([early.status, early.headers['retry-after']]).toEqual([503, '5'])

  server.setSites({ extraPort: 4_000, intervalSec: 60, keyFile: 'secret.key' } as object, [
    'b.example',
    'a.example',
  ])
  const first = await server.poll(token)
  expect(first).toMatchObject({
    vantage: 'shanghai',
    clock_ms: server.clock.ms,
    interval_s: 300,
    accepted: 0,
  })
  const url = 'http://other.example.org'
  expect(first.content?.sites.map(({ slug }) => slug)).toEqual(['other', 'relay'])
  expect(first.content?.sites[0]).toEqual({
    slug: 'other',
    url,
    api_base: url,
    extra_port: 4_000,
    interval_s: 60,
  })
  expect(first.content?.opt_out).toEqual(['a.example', 'b.example'])
  expect(first.catalogue).toBe(hashContent(first.content!))
  expect(JSON.stringify(first)).not.toContain('secret')

  expect(await server.poll(token, first.catalogue)).toMatchObject({
    catalogue: first.catalogue,
    content: null,
  })
  server.setSites({ extraPort: 4_000, intervalSec: 60 }, ['a.example'])
  const next = await server.poll(token, first.catalogue)
  expect(next.content?.opt_out).toEqual(['a.example'])
  const overseas = await server.poll(await server.create('paris', 'overseas'))
  expect(overseas.content?.sites.map(({ slug }) => slug)).toEqual(['abroad', 'other', 'relay'])
})

test('6.5: online are those of the region that polled within a minute, also after a restart', async () => {
  const server = await startServer({ ownVantage: 'main' })
  await server.store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  server.setSites()
  const [a, b] = [await server.create('b'), await server.create('a')]
  const paris = await server.create('paris', 'overseas')
  expect((await server.poll(a)).online).toEqual(['b'])
  expect((await server.poll(b)).online).toEqual(['a', 'b'])
  expect((await server.poll(paris)).online).toEqual(['main', 'paris'])
  await server.publish()
  const { vantages } = server.store.snapshot
  expect(vantages.map(({ name, lastSeenSec }) => [name, lastSeenSec! >= NOW_SEC])).toEqual([
    ...[
      ['a', true],
      ['b', true],
      ['main', false],
      ['paris', true],
    ],
  ])
  server.restart()
  server.setSites()
  expect(server.api.online('cn')).toEqual(['a', 'b'])
  server.clock.ms += 61_000
  expect((await server.poll(a)).online).toEqual(['b'])
  await server.revoke('b')
  expect(server.api.online('cn')).toEqual([])
})

test('6.5: results are stored once, however often they are sent; gaps are allowed', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const results = [
    result(1),
    result(2, { slug: 'other', outcome: 'down', error: 'tls_reset', http_status: null }),
  ]
  const first = await server.results(token, results, { isPacked: true })
  expect(first).toEqual({ accepted: 2, stored: 2, repeated: 0, refused: 0, refusals: [] })
  expect(await server.results(token, results)).toMatchObject({ accepted: 2, stored: 0, repeated: 2 })
  expect(await server.results(token, [result(9), result(2), result(7)])).toMatchObject({
    accepted: 9,
    stored: 2,
  })
  const rows = await server.rows()
  expect(rows).toEqual([
    { slug: 'relay', vantage: 'shanghai', at: NOW_SEC - 59, outcome: 'up', error: null },
    { slug: 'other', vantage: 'shanghai', at: NOW_SEC - 58, outcome: 'down', error: 'tls_reset' },
    { slug: 'relay', vantage: 'shanghai', at: NOW_SEC - 53, outcome: 'up', error: null },
    { slug: 'relay', vantage: 'shanghai', at: NOW_SEC - 51, outcome: 'up', error: null },
  ])
  expect((await server.poll(token)).accepted).toBe(9)

  server.restart()
  server.setSites()
  // The seconds differ, so only the numbers show that they are repetitions.
  const later = [result(7, { at_s: NOW_SEC - 10 }), result(9, { at_s: NOW_SEC - 11 })]
  expect(await server.results(token, later)).toMatchObject({ accepted: 9, stored: 0, repeated: 2 })
  expect(await server.rows()).toEqual(rows)
})

test('6.5: the same results twice at the same time are stored once', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const skewed = { clockMs: server.clock.ms + 600_000, isPacked: true }
  const results = Array.from({ length: 500 }, (_, i) => result(i + 1, { at_s: NOW_SEC - i }))
  const both = await Promise.all([0, 1].map(() => server.results(token, results, skewed)))
  expect(both.map(({ stored }) => stored).sort()).toEqual([0, 500])
  expect(both.map(({ repeated }) => repeated).sort()).toEqual([0, 500])
  expect(await server.rows()).toHaveLength(500)
})

test('6.5: a token writes to its own vantage only, until it is revoked', async () => {
  const server = await startServer()
  server.setSites()
  const [own, other] = [await server.create('own'), await server.create('other', 'overseas')]
  expect(await server.results(own, [result(7)])).toMatchObject({ accepted: 7 })
  const named = await server.request(
    RESULTS_PATH,
    { clock_ms: server.clock.ms, results: [], vantage: 'other' },
    { token: own },
  )
  expect([named.status, named.json]).toEqual([
    400,
    { error: 'the body must not have "vantage"', code: 'invalid_request' },
  ])
  const inside = [{ ...result(8), vantage: 'other' }, result(9, { slug: 'abroad' })]
  expect((await server.results(own, inside)).refusals).toEqual([
    { sequence: 8, reason: 'impossible: the body must not have "vantage"' },
    { sequence: 9, reason: 'unknown_site: not in the catalogue of this agent' },
  ])
  expect(await server.results(other, [result(1)])).toMatchObject({ accepted: 1, stored: 1 })
  expect((await server.rows()).map(({ vantage }) => vantage)).toEqual(['other', 'own'])

  await server.revoke('own')
  for (const path of [POLL_PATH, RESULTS_PATH]) {
    const { status, headers, json } = await server.request(path, {}, { token: own })
    expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer'])
    expect(json).toEqual({ error: 'the token is not valid', code: 'invalid_api_key' })
  }
  const renewed = await server.create('own')
  expect((await server.poll(renewed)).accepted).toBe(0) // a holder of the old token may have used up its numbers
  expect(await server.results(renewed, [result(1, { at_s: NOW_SEC })])).toMatchObject({
    accepted: 1,
    stored: 1,
  })
})

// biome-ignore format: the columns are the specification
const skews = [
  // the agent's clock, its result, seconds before the server's now ─► where the store has it
  [   0,  100, -100],
  [  60,   40,  -40], // up to a minute: not corrected
  [ -60,  160, -160],
  [  60,  -50,    0], // but never in the future
  [ 600, -500, -100], // ten minutes ahead: moved back
  [-600,  700, -100], // ten minutes behind: moved forward
  [ 600, -630,    0], // later than its own clock by less than a minute
] as const

test("6.5: results of an agent whose clock differs are stored by the server's clock", async () => {
  const server = await startServer()
  server.setSites()
  const tokens = await Promise.all(skews.map((_, i) => server.create(`agent-${i}`)))
  const nowSec = Math.floor(server.clock.ms / 1_000)
  for (const [i, [skewSec, beforeSec]] of skews.entries()) {
    const clockMs = server.clock.ms + skewSec * 1_000
    await server.results(tokens[i], [result(1, { at_s: nowSec - beforeSec })], { clockMs })
  }
  const stored = new Map((await server.rows()).map(({ vantage, at }) => [vantage, at - nowSec]))
  expect(skews.map((_, i) => stored.get(`agent-${i}`))).toEqual(skews.map(([, , storedSec]) => storedSec))
})

const DAY = 86_400
const impossible: [Partial<Record<keyof ReturnType<typeof result>, unknown>>, RegExp][] = [
  [{ slug: 'unlisted' }, /^unknown_site/],
  [{ slug: 'Relay' }, /^impossible: slug must match/],
  [{ outcome: 'fine' }, /^impossible: outcome must be one of/],
  [{ outcome: 'down' }, /^impossible: outcome "down" must have an error/],
  [{ outcome: 'inconclusive' }, /^impossible: outcome "inconclusive" must have an error/],
  [{ error: 'slow' }, /^impossible: outcome "up" must have no error/],
  [
    { outcome: 'degraded', error: 'tls_reset' },
    /^impossible: outcome "degraded" cannot have error tls_reset/,
  ],
  [{ outcome: 'down', error: 'challenge' }, /^impossible: outcome "down" cannot have error challenge/],
  [{ outcome: 'down', error: 'boom' }, /^impossible: error must be one of/],
  [{ http_status: null }, /^impossible: outcome "up" must have an http_status/],
  [{ http_status: 99 }, /^impossible: http_status must be from 100 to 599/],
  [{ ttfb_ms: 231 }, /^impossible: ttfb_ms must be at most total_ms/],
  [{ dns_ms: -1 }, /^impossible: dns_ms must be from 0 to 600000/],
  [{ total_ms: 600_001 }, /^impossible: total_ms/],
  [{ tls_ms: 1.5 }, /^impossible: tls_ms must be an integer or null/],
  [{ address: 'localhost' }, /^impossible: address must be an IP address/],
  [{ address: 'fe80::1%eth0' }, /^impossible: address must be an IP address/],
  [{ address: '1'.repeat(46) }, /^impossible: .*address must have 1 to 45 characters/],
  [{ address: '' }, /^impossible: .*address must have 1 to 45 characters/],
  [{ address: 7 }, /^impossible: .*address must be a string/],
  [{ at_s: 'now' }, /^impossible: at_s must be an integer/],
  [{ at_s: undefined }, /^impossible: the body must have at_s/],
  [{ at_s: NOW_SEC + 3_600 }, /^future/],
  [{ at_s: NOW_SEC - DAY - 3_700 }, /^too_old/],
  [{ at_s: 0 }, /^too_old/],
]

test('6.5: invalid results are refused one by one; the others are stored', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const bad = impossible.map(([more], i) => result(i + 2, more as object))
  const response = await server.results(token, [result(1), ...bad, result(bad.length + 2)])
  expect(response).toMatchObject({ accepted: bad.length + 2, stored: 2, repeated: 0, refused: bad.length })
  for (const [i, [, reason]] of impossible.entries()) {
    expect(response.refusals[i].sequence).toBe(i + 2)
    expect(response.refusals[i].reason).toMatch(reason)
  }
  expect(await server.rows()).toHaveLength(2)
  expect(server.api.metrics()).toMatchObject({ stored: 2, refused: bad.length, repeated: 0 })
  expect(await server.results(token, bad)).toMatchObject({ refused: 0, repeated: bad.length })
})

test('6.5: the address of a failed connection is stored; it is optional', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const failed = { outcome: 'down', error: 'connect_timeout', http_status: null, ttfb_ms: null } as const
  const addresses = ['203.0.113.7', '2001:db8::ffff:192.0.2.1', null, undefined]
  const results = addresses.map((address, i) => result(i + 1, { ...failed, address }))
  const response = await server.results(token, [...results, result(5, { address: '203.0.113.7' })])
  expect(response).toMatchObject({ stored: 5, refused: 0 })
  await server.store.flush()
  const rows = server.database.all<{ address: string | null }>('SELECT address FROM probe_raw ORDER BY at')
  expect(rows.map(({ address }) => address)).toEqual([...addresses.slice(0, 2), null, null, null])
})

test('6.5: bodies that are malformed, too large, or too large unpacked are refused as a whole', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const MiB = 1_024 * 1_024
  const zeros = Buffer.alloc(64 * MiB)
  const send = async (path: string, body: unknown, more: object = {}) => {
    const { status, json } = await server.request(path, body, { token, ...more })
    return [status, (json as { code: string }).code]
  }
  expect(await send(RESULTS_PATH, zeros, { isPacked: true })).toEqual([413, 'payload_too_large']) // 64 KiB packed
  expect(await send(RESULTS_PATH, Buffer.alloc(MiB + 1, 32))).toEqual([413, 'payload_too_large'])
  expect(await send(POLL_PATH, ' '.repeat(4_097))).toEqual([413, 'payload_too_large'])
  expect(await send(POLL_PATH, ' '.repeat(8_000), { isPacked: true })).toEqual([413, 'payload_too_large'])
  const asGzip = { headers: { 'content-encoding': 'gzip' } }
  expect(await send(RESULTS_PATH, 'not gzip', asGzip)).toEqual([400, 'invalid_request'])
  const asBrotli = { headers: { 'content-encoding': 'br' } }
  expect(await send(RESULTS_PATH, 'x', asBrotli)).toEqual([415, 'unsupported_media_type'])
  expect(await send(RESULTS_PATH, '{')).toEqual([400, 'invalid_request'])
  expect(await send(RESULTS_PATH, '')).toEqual([400, 'invalid_request'])
  const clock_ms = server.clock.ms
  const results = Array.from({ length: 501 }, (_, i) => result(i + 1, { at_s: NOW_SEC - i }))
  expect(await send(RESULTS_PATH, { clock_ms, results }, { isPacked: true })).toEqual([
    400,
    'invalid_request',
  ])
  for (const sequence of [0, -1, 1.5, '1', null, SEQUENCE_MAX + 1, 2 ** 53])
    expect(await send(RESULTS_PATH, { clock_ms, results: [{ ...result(1), sequence }] })).toEqual([
      ...[400, 'invalid_request'],
    ])
  expect(await server.rows()).toEqual([])
  expect((await server.results(token, results.slice(0, 500))).stored).toBe(500)
})

test('6.5: numbers that jump by more than a buffer holds are refused as a whole, and accepted stays', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const sendNumbers = async (sequences: number[]) => {
    const results = sequences.map((sequence) => result(sequence, { at_s: NOW_SEC - (sequence % 100) }))
    return server.request(RESULTS_PATH, { clock_ms: server.clock.ms, results }, { token })
  }
  for (const sequence of [BUFFERED_ROWS_MAX + 1, SEQUENCE_MAX]) {
    const { status, json } = await sendNumbers([1, sequence])
    const error = 'sequence numbers must be at most 500000 now; poll again'
    expect([status, json]).toEqual([400, { error, code: 'invalid_request' }])
  }
  expect([(await server.poll(token)).accepted, await server.rows()]).toEqual([0, []])
  expect((await sendNumbers([1, BUFFERED_ROWS_MAX])).json).toMatchObject({
    accepted: BUFFERED_ROWS_MAX,
    stored: 2,
  })
  expect((await sendNumbers([2 * BUFFERED_ROWS_MAX + 1])).status).toBe(400)
  expect((await sendNumbers([2 * BUFFERED_ROWS_MAX])).json).toMatchObject({ accepted: 2 * BUFFERED_ROWS_MAX })
})

test('6.5: a stored number beyond the bound, written by an earlier version, counts as 0', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  await server.results(token, [result(7)])
  await server.store.flush()
  const sql =
    "UPDATE meta SET value = replace(value, '7}', '9007199254740991}') WHERE key LIKE 'agent-accepted-%'"
  expect(server.database.run(sql)).toBe(1)
  server.restart()
  server.setSites()
  expect((await server.poll(token)).accepted).toBe(0)
  expect(await server.results(token, [result(1)])).toMatchObject({ accepted: 1, stored: 1 })
})

test('6.5: other paths and methods', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  const send = async (path: string, method: string) =>
    (await server.request(path, '', { token, method })).status
  expect(await send('/agent/v1/else', 'POST')).toBe(404)
  expect(await send('/api/v1/sites', 'GET')).toBe(404)
  expect(await send(POLL_PATH, 'GET')).toBe(405)
  expect((await server.request(POLL_PATH, '', { method: 'PUT' })).headers.allow).toBe('POST')
})

test('6.5: after twenty wrong tokens an address is limited; a valid token still passes', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.setSites()
  const status = async (token: string | undefined, from: string) =>
    (await server.request(POLL_PATH, { catalogue: null, clock_ms: 1 }, { token, from })).status
  for (const wrong of [undefined, '', 'x', `${token}x`, token.toUpperCase(), 'x'.repeat(300)])
    expect(await status(wrong, '127.0.0.9')).toBe(401)
  for (let i = 6; i < 20; i++) expect(await status(`vt_${i}`, '127.0.0.9')).toBe(401)
  expect(await status('vt_20', '127.0.0.9')).toBe(429)
  expect(await status(token, '127.0.0.9')).toBe(200) // an agent that shares the address continues
  expect(await status('vt_21', '127.0.0.9')).toBe(429) // which lifts the block of no other token
  expect(await status('vt_22', '127.0.0.8')).toBe(401)
  expect(server.api.metrics().wrongTokens).toBe(21)
  server.clock.ms += 600_000
  expect(await status('vt_23', '127.0.0.9')).toBe(401)
})

test('6.5: requests per minute are bounded for each agent by itself', async () => {
  const server = await startServer()
  server.setSites()
  const [token, other] = [await server.create('busy'), await server.create('calm')]
  const status = async (token: string) =>
    (await server.request(POLL_PATH, { catalogue: null, clock_ms: 1 }, { token })).status
  for (let i = 0; i < REQUESTS_PER_MINUTE_MAX; i++) expect(await status(token)).toBe(200)
  expect(await status(token)).toBe(429)
  expect(await status(other)).toBe(200)
  server.clock.ms += 60_000
  expect(await status(token)).toBe(200)
})

test('6.5: while the store is behind, results get 503', async () => {
  const server = await startServer()
  const token = await server.create('shanghai')
  server.queued.rows = 10_001
  server.setSites()
  const body = { clock_ms: server.clock.ms, results: [result(1)] }
  const { status, headers } = await server.request(RESULTS_PATH, body, { token })
  expect([status, headers['retry-after']]).toEqual([503, '5'])
  server.queued.rows = 0
  expect(await server.results(token, [result(1)])).toMatchObject({ accepted: 1, stored: 1 })
  server.api.beginShutdown()
  expect((await server.request(RESULTS_PATH, body, { token })).status).toBe(503)
})
