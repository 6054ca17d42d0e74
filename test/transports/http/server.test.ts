/**
 * The HTTP port with real sockets. Requests are written as bytes, since the answers' bytes matter too.
 * The app runs in the test's own process; every test closes it, which uWebSockets.js insists on.
 */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { responseToJson } from '../../../proto/json.ts'
import { HttpServer } from '../../../transports/http/server.ts'
import { FakeDecider, OK, OVER } from '../fake-decider.ts'

const HOST = '127.0.0.1'
const BODY_BYTES_MAX = 10_000

let decider: FakeDecider
let server: HttpServer
let isHealthy: boolean
let logged: string[]
const sockets: Socket[] = []

beforeEach(() => {
  decider = new FakeDecider()
  isHealthy = true
  logged = []
  server = new HttpServer({
    host: HOST,
    port: 0,
    bodyBytesMax: BODY_BYTES_MAX,
    decider,
    isHealthy: () => isHealthy,
    log: (level, message) => logged.push(`${level} ${message}`),
  })
})
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
  server.close()
})

interface Answer {
  status: string
  headers: Record<string, string>
  body: string
}

function open(): Socket {
  const socket = connect(server.port, HOST)
  socket.on('error', () => {})
  sockets.push(socket)
  return socket
}

/** Reads one answer; `headOnly` for answers to HEAD, which announce a body and send none. */
async function answerOf(socket: Socket, headOnly = false): Promise<Answer> {
  let text = ''
  for (;;) {
    const end = text.indexOf('\r\n\r\n')
    if (end >= 0) {
      const [status, ...lines] = text.slice(0, end).split('\r\n')
      const headers = Object.fromEntries(lines.map((line) => line.toLowerCase().split(': ')))
      const body = text.slice(end + 4)
      if (headOnly || Buffer.byteLength(body) >= Number(headers['content-length'] ?? 0)) {
        return { status: status.replace('HTTP/1.1 ', ''), headers, body }
      }
    }
    text += String((await once(socket, 'data'))[0])
  }
}

/** One request on its own connection. */
async function send(line: string, body: string | Buffer = '', headers = ''): Promise<Answer> {
  const socket = open()
  const length = body.length > 0 ? `Content-Length: ${Buffer.byteLength(body)}\r\n` : ''
  const answered = answerOf(socket, line.startsWith('HEAD'))
  socket.write(`${line} HTTP/1.1\r\nHost: a\r\n${headers}${length}\r\n`)
  socket.write(body)
  return answered
}

const question = (domain: string) => JSON.stringify({ domain, descriptors: [{}] })
const post = (body: string | Buffer) => send('POST /json', body)

describe('6.2: /json', () => {
  test('OK is 200 with the response', async () => {
    const { status, headers, body } = await post(question('answer'))
    expect([status, headers['content-type'], body]).toEqual([
      '200 OK',
      'application/json',
      responseToJson(OK),
    ])
    expect(decider.requests).toEqual([
      { domain: 'answer', descriptors: [{ entries: [], limit: null, hitsAddend: null }], hitsAddend: 0 },
    ])
  })

  test('OVER_LIMIT is 429 with the response', async () => {
    const { status, headers, body } = await post(question('over'))
    expect([status, headers['content-type'], body]).toEqual([
      '429 Too Many Requests',
      'application/json',
      responseToJson(OVER),
    ])
  })

  // biome-ignore format: the columns are the specification
  const refused = [
    ['a body that is not JSON',    '{',                           /^warning error: Expected property name/],
    ['an unknown field',           '{"foo":1}',                   'warning error: unknown field "foo"'],
    ['bytes that are not UTF-8',   Buffer.from([0x22, 0xff, 0x22]), 'warning error: the body is not UTF-8'],
    ['an error of the decision',   question('fail'),              'warning error: no rules today'],
    ['nothing',                    '',                            'warning error: Unexpected end of JSON input'],
  ] as const
  for (const [name, request, line] of refused) {
    test(`${name}: 400, and the cause in the log only`, async () => {
      const { status, headers, body } = await post(request as string)
      expect([status, body]).toEqual(['400 Bad Request', 'Bad Request\n'])
      expect(headers['content-type']).toBe('text/plain; charset=utf-8')
      expect(headers['x-content-type-options']).toBe('nosniff')
      expect(logged).toEqual([typeof line === 'string' ? line : expect.stringMatching(line)])
    })
  }

  test('a decision that throws: 400, and its stack in the log', async () => {
    expect((await post(question('throw'))).status).toBe('400 Bad Request')
    expect(logged[0]).toMatch(/^error a decision threw: Error: a defect\n +at /)
    expect((await post(question('twice'))).body).toBe(responseToJson(OK))
  })

  test('an overall code that should not be: 500', async () => {
    const asked = post(question('wait'))
    await decider.untilWaiting(1)
    decider.waiting[0].answer({ overallCode: 0, statuses: [], responseHeadersToAdd: [] })
    expect(await asked).toMatchObject({ status: '500 Internal Server Error', body: '{}' })
  })

  test('an answer that comes later', async () => {
    const asked = post(question('wait'))
    await decider.untilWaiting(1)
    decider.release()
    expect((await asked).status).toBe('200 OK')
  })

  test('6.1: any method with a body, and the query is ignored', async () => {
    for (const method of ['GET', 'PUT', 'DELETE', 'ODD']) {
      expect((await send(`${method} /json?x=1`, question('answer'))).status).toBe('200 OK')
    }
  })

  test('6.1: GET and HEAD without a body are 400', async () => {
    expect((await send('GET /json')).status).toBe('400 Bad Request')
    const { status, headers, body } = await send('HEAD /json')
    expect([status, headers['content-length'], body]).toEqual(['400 Bad Request', '12', ''])
    expect(await send('HEAD /healthcheck')).toMatchObject({ status: '200 OK', body: '' })
  })

  test('a body in chunks, and in many packets', async () => {
    const socket = open()
    const answered = answerOf(socket)
    socket.write('POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (const letter of question('é')) {
      const bytes = Buffer.from(letter)
      socket.write(Buffer.concat([Buffer.from(`${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]))
      await new Promise(setImmediate)
    }
    socket.write('0\r\n\r\n')
    expect((await answered).status).toBe('200 OK')
    expect(decider.requests[0].domain).toBe('é')
  })

  test('one connection, many requests', async () => {
    const socket = open()
    for (let i = 0; i < 5; i++) {
      const body = question(i % 2 === 0 ? 'answer' : 'over')
      const answered = answerOf(socket)
      socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      expect((await answered).status).toBe(i % 2 === 0 ? '200 OK' : '429 Too Many Requests')
    }
  })

  test('a body of the largest size, and others that are too long', async () => {
    const sized = (bytes: number) => question('x'.repeat(bytes - question('').length))
    expect((await post(sized(BODY_BYTES_MAX))).status).toBe('200 OK')
    const text = 'the body is longer than 10000 bytes (HTTP_BODY_MAX_BYTES)'
    for (const bytes of [BODY_BYTES_MAX + 1, 2 * BODY_BYTES_MAX, 2 * BODY_BYTES_MAX + 1]) {
      const { status, body, headers } = await post(sized(bytes))
      expect([status, body]).toEqual(['413 Content Too Large', `${text}\n`])
      expect(headers.connection).toBe(bytes > 2 * BODY_BYTES_MAX ? 'close' : undefined)
    }
    expect(logged).toEqual(Array(3).fill(`warning error: ${text}`))
    expect(decider.requests.length).toBe(1)
  })

  test('a body without an end is given up at twice the bound', async () => {
    const socket = open()
    const answered = answerOf(socket)
    socket.write('POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let i = 0; i < 5; i++) socket.write(`1388\r\n${'x'.repeat(5_000)}\r\n`) // 0x1388 = 5,000
    expect((await answered).status).toBe('413 Content Too Large')
  })

  test('a client that goes away while it waits, or while it sends, harms nobody', async () => {
    const waits = open()
    waits.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 36\r\n\r\n${question('wait').padEnd(36)}`)
    await decider.untilWaiting(1)
    waits.destroy()
    const sends = open()
    sends.write('POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{')
    sends.destroy()
    expect((await post(question('answer'))).status).toBe('200 OK')
    decider.release()
    expect((await post(question('answer'))).status).toBe('200 OK')
    await server.drain(10_000) // none of the two counts as in flight
  })

  test('a storm of errors is ten lines', async () => {
    const failed = await Promise.all(Array.from({ length: 50 }, () => post('{')))
    expect(failed.every(({ status }) => status === '400 Bad Request')).toBe(true)
    expect(logged.length).toBeLessThanOrEqual(20) // ten in each second the storm touches
  })
})

describe('6.1: everything else', () => {
  test('/healthcheck', async () => {
    const well = await send('GET /healthcheck?x')
    expect(well).toMatchObject({ status: '200 OK', body: 'OK' })
    expect(well.headers['content-type']).toBe('text/plain; charset=utf-8')
    isHealthy = false
    const unwell = await send('POST /healthcheck')
    expect(unwell).toMatchObject({ status: '500 Internal Server Error', body: '' })
    expect(unwell.headers['content-type']).toBeUndefined()
  })

  for (const path of ['/', '/nope', '/json/', '/JSON', '/healthcheck/x']) {
    test(`${path} is 404`, async () => {
      const { status, headers, body } = await send(`GET ${path}`)
      expect([status, body]).toEqual(['404 Not Found', '404 page not found\n'])
      expect(headers['content-type']).toBe('text/plain; charset=utf-8')
      expect(headers['x-content-type-options']).toBe('nosniff')
    })
  }

  // biome-ignore format: the columns are the specification
  const redirected = [
    ['//json',           '/json'],
    ['/x/../json',       '/json'],
    ['/./json/',         '/json/'],
    ['//json?a=b',       '/json?a=b'],
    ['//example.org/..', '/'], // never to another host
  ] as const
  for (const [path, location] of redirected) {
    test(`${path} is 301 to ${location}`, async () => {
      const { status, headers, body } = await send(`POST ${path}`, '{}')
      expect([status, headers.location, body]).toEqual(['301 Moved Permanently', location, ''])
    })
  }
})

describe('life', () => {
  test('a port held by another program is one clear line', async () => {
    const stranger = createServer().listen(0, HOST)
    await once(stranger, 'listening')
    const { port } = stranger.address() as { port: number }
    const options = { bodyBytesMax: 1, decider, isHealthy: () => true, log: () => {} }
    expect(() => new HttpServer({ host: HOST, port, ...options })).toThrow(
      `127.0.0.1:${port}: cannot listen for HTTP: the port is taken, or the address is not of this machine.`,
    )
    stranger.close()
  })

  test('drain: nobody new, answers in flight say Connection: close, then the connection ends', async () => {
    const asked = post(question('wait'))
    const idle = open()
    idle.resume()
    await once(idle, 'connect')
    await decider.untilWaiting(1)
    const drained = server.drain(10_000)
    const late = open()
    expect((await once(late, 'error'))[0].code).toBe('ECONNREFUSED')
    decider.release()
    const { status, headers } = await asked
    expect([status, headers.connection]).toEqual(['200 OK', 'close'])
    await drained
    await once(idle, 'close')
  })

  test('drain: what never ends is cut at the timeout', async () => {
    const socket = open()
    const body = question('wait')
    socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await decider.untilWaiting(1)
    const closed = once(socket, 'close')
    await server.drain(50)
    await closed
    decider.release() // touches nothing that is gone
  })

  test('drain with nothing to wait for is done at once, and may come twice', async () => {
    await server.drain(10_000)
    await server.drain(10_000)
  })
})
