/**
 * How much a request may be, how long it may take, how much of it an error repeats, and how many may be held (spec 1.2,
 * 4.5). Over real sockets; time is moved by hand.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ENDPOINTS } from '../../../monitor/api/schema/endpoints.ts'
import { eventually } from '../../helpers/eventually.ts'
import { type ReceivedResponse, startApi } from './setup.ts'

const BODY_BYTES_MAX = 4_096
const BODY_MS = 8_000
const ECHO_CHARS_MAX = 64
const DETECTIONS = '/api/v1/detections'
const HEAD = `POST ${DETECTIONS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

function open(): Socket & { text: string } {
  const socket = Object.assign(connect(api.port, '127.0.0.1'), { text: '' })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {}) // what came before it is what counts
  socket.on('data', (chunk) => {
    socket.text += chunk
  })
  return socket
}

describe('1.2: a body without a length', () => {
  const chunk = (size: number) => `${size.toString(16)}\r\n${' '.repeat(size)}\r\n`
  const chunked = (...sizes: number[]) =>
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n${sizes.map(chunk).join('')}0\r\n\r\n`

  // biome-ignore format: the columns are the chunks that are sent, and what comes of them
  const cases: [sizes: number[], status: number, code: string][] = [
    [[BODY_BYTES_MAX],                 400, 'invalid_request'], // read, and no JSON
    [[BODY_BYTES_MAX + 1],             413, 'payload_too_large'],
    [[BODY_BYTES_MAX, 1],              413, 'payload_too_large'],
    [Array(50).fill(100),              413, 'payload_too_large'],
    [Array(50).fill(2_000),            413, 'payload_too_large'],
  ]
  for (const [sizes, status, code] of cases) {
    const bytes = sizes.reduce((sum, size) => sum + size)
    test(`1.2: ${bytes} bytes in ${sizes.length} chunks are ${status}`, async () => {
      const socket = open()
      socket.write(chunked(...sizes))
      if (status === 413) await once(socket, 'close')
      else await eventually(() => expect(socket.text).toContain('"code"'))
      expect(socket.text).toContain(`HTTP/1.1 ${status} `)
      expect(socket.text).toContain(`"code":"${code}"`)
      expect(/\r\nConnection: close\r\n/i.test(socket.text)).toBe(status === 413)
    })
  }

  test('1.2: one that never ends is refused before it does', async () => {
    const socket = open()
    socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n${Array(20).fill(chunk(4_000)).join('')}`)
    await once(socket, 'close')
    expect(socket.text).toContain('HTTP/1.1 413 ')
  })
})

test('1.2: a body has 8 s, even if a part has arrived', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const socket = open()
  socket.write(`${HEAD}Content-Length: 20\r\n\r\n{`)
  while (vi.getTimerCount() === 0) await turn() // the request has come, and its time runs
  vi.advanceTimersByTime(BODY_MS - 1)
  expect(api.lines).toEqual([])
  vi.advanceTimersByTime(1)
  await once(socket, 'close')
  expect(api.lines).toMatchObject([{ status: 408 }])
  expect(socket.text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
  expect(socket.text).toContain('{"error":"the body was not received within 8 s","code":"request_timeout"}')
})

describe('1.2: an error repeats at most 64 characters of what was sent', () => {
  const MARK = 'zq'
  const long = MARK.repeat(400)

  /** Of what comes back, headers included. */
  function echoed({ headers, json }: ReceivedResponse): number {
    const { error } = json as { error: string }
    expect(error.length).toBeLessThanOrEqual(300)
    const runs = `${error} ${JSON.stringify(headers)}`.match(/(?:zq)+/g) ?? []
    return Math.max(0, ...runs.map(({ length }) => length))
  }

  const parameters = ENDPOINTS.flatMap(({ path, parameters }) => parameters.map(({ name }) => [path, name]))
  test.each(parameters)('1.2: a long value: %s ?%s', async (path, name) => {
    const known = path.replace('{slug}', 'alpha').replace('{id}', '018f0000-0000-7000-8000-000000000000')
    const response = await api.get(`/api/v1${known === '/' ? '' : known}?${name}=${long}`)
    expect(response.json).toMatchObject({ code: 'invalid_parameter', error: expect.stringContaining(name) })
    expect(echoed(response)).toBeLessThanOrEqual(ECHO_CHARS_MAX)
  })

  const post = (body: unknown, type = 'application/json') =>
    api.request('POST', DETECTIONS, { body: JSON.stringify(body), headers: { 'content-type': type } })

  // biome-ignore format: a table
  const cases: [what: string, status: number, ask: () => Promise<ReceivedResponse>][] = [
    ['an unknown member',       400, () => post({ url: 'https://a.example.com', [long]: 1 })],
    ['a member of another',     400, () => post({ url: { [long]: 1 } })],
    ['a text for a body',       400, () => post(long)],
    ['a URL that is none',      400, () => post({ url: long })],
    ['a host that is none',     400, () => post({ url: `https://${long}.example.com` })],
    ['a host not allowed',      422, () => post({ url: `https://${long.slice(0, 60)}.lan` })],
    ['a scheme',                400, () => post({ url: `${long}://example.com` })],
    ['user info',               400, () => post({ url: `https://${long}:${long}@example.com` })],
    ['a media type',            415, () => post({}, `application/${long}`)],
    ['a path',                  404, () => api.get(`/api/v1/${long}`)],
    ['a version',               404, () => api.get(`/api/v7/${long}`)],
    ['a slug',                  404, () => api.get(`/api/v1/sites/${long}`)],
    ['an id',                   404, () => api.get(`${DETECTIONS}/${long}`)],
    ['a method',                405, () => api.request('PATCH', `/api/v1/sites?${long}`)],
    ['an API key',              401, () => api.get('/api/v1/sites', { headers: { 'x-api-key': long } })],
    ['a bearer',                401, () => api.get('/api/v1/sites', { headers: { authorization: `Bearer ${long}` } })],
  ]
  test.each(cases)('1.2: %s', async (_, status, send) => {
    const response = await send()
    expect(response.status).toBe(status)
    expect(echoed(response)).toBeLessThanOrEqual(ECHO_CHARS_MAX)
  })

  test('1.2: an unknown member is reported by the start of its name', async () => {
    const response = await post({ url: 'https://a.example.com', [long]: 1 })
    expect(echoed(response)).toBeGreaterThan(0)
  })
})

describe('4.5: held requests', () => {
  const HELD_MAX = 200
  const HELD_PER_CLIENT = 2

  test('M4.5#8: at most 200 are held; the next gets its response at once, for any client', async () => {
    const submitted = await api.submit('https://a.example.com')
    const path = `${submitted.headers.location}?wait=25`
    const clients = Array.from({ length: HELD_MAX / HELD_PER_CLIENT }, (_, i) => `127.0.1.${i + 1}`)
    const pending = clients.flatMap((from) => [api.get(path, { from }), api.get(path, { from })])
    await eventually(() => expect(api.queue.waiting.count).toBe(HELD_MAX))
    const next = await api.get(path, { from: '127.0.2.1' })
    expect(next.json).toMatchObject({ status: 'queued', version: 1 })
    expect(api.queue.waiting.count).toBe(HELD_MAX)
    api.queue.take()
    for (const response of await Promise.all(pending)) expect(response.json).toMatchObject({ version: 2 })
    const after = api.get(path, { from: '127.0.2.1' }) // there is room again
    await eventually(() => expect(api.queue.waiting.count).toBe(1))
    api.queue.close()
    await after
  })

  test('M13#13: lists are served while 100 requests are held, without a read of the store', async () => {
    const LISTS = 50
    const path = `${(await api.submit('https://a.example.com')).headers.location}?wait=25`
    const pending = Array.from({ length: 100 }, (_, i) => api.get(path, { from: `127.0.1.${1 + (i >> 1)}` }))
    await eventually(() => expect(api.queue.waiting.count).toBe(100))
    const readsBefore = api.store.reads
    const from = '127.0.3.1' // with a quota of its own
    for (let i = 0; i < LISTS; i++) expect((await api.get('/api/v1/sites', { from })).status).toBe(200)
    expect(api.queue.waiting.count).toBe(100)
    expect(api.store.reads).toBe(readsBefore)
    api.queue.close()
    await Promise.all(pending)
  })
})
