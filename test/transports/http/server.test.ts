/**
 * `/json` and the life of the HTTP port, with real sockets; paths and methods are in paths.test.ts.
 * The app runs in the process of the test; every test closes it, as uWebSockets.js requires.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { responseToJson } from '../../../proto/json-response.ts'
import { HttpServer } from '../../../transports/http/server.ts'
import { FakeRateLimiter, OK, OVER } from '../fake-rate-limiter.ts'
import { RawClient, readResponse } from './raw-client.ts'

const HOST = '127.0.0.1'
const BODY_BYTES_MAX = 20_000

let limiter: FakeRateLimiter
let server: HttpServer
let logged: string[]
let client: RawClient

beforeEach(() => {
  limiter = new FakeRateLimiter()
  logged = []
  server = new HttpServer({
    host: HOST,
    port: 0,
    bodyBytesMax: BODY_BYTES_MAX,
    limiter,
    health: { isHealthy: true, report: '' },
    log: (level, message) => logged.push(`${level} ${message}`),
  })
  client = new RawClient(server.port)
})
afterEach(() => {
  client.close()
  server.close()
})

const open = () => client.open()
const send: RawClient['send'] = (...request) => client.send(...request)
const jsonRequest = (domain: string) => JSON.stringify({ domain, descriptors: [{}] })
const post = (body: string | Buffer) => send('POST /json', body)

describe('6.2: /json', () => {
  test('6.2#5: OK is 200 with the response', async () => {
    const { status, headers, body } = await post(jsonRequest('answer'))
    expect([status, headers['content-type'], body]).toEqual([
      '200 OK',
      'application/json',
      responseToJson(OK),
    ])
    expect(limiter.requests).toEqual([
      { domain: 'answer', descriptors: [{ entries: [], limit: null, hitsAddend: null }], hitsAddend: 0 },
    ])
  })

  test('6.2#6: OVER_LIMIT is 429 with the response', async () => {
    const { status, headers, body } = await post(jsonRequest('over'))
    expect([status, headers['content-type'], body]).toEqual([
      '429 Too Many Requests',
      'application/json',
      responseToJson(OVER),
    ])
  })

  // biome-ignore format: the columns are the specification
  const refused = [
    ['a body that is not JSON',    '{',                           'warning error: expected a field at character 2, got the end of the text'],
    ['an unknown field',           '{"foo":1}',                   'warning error: unknown field "foo"'],
    ['bytes that are not UTF-8',   Buffer.from([0x22, 0xff, 0x22]), 'warning error: the body is not UTF-8'],
    ['an error of the decision',   jsonRequest('fail'),              'warning error: no rules today'],
    ['nothing',                    '',                            'warning error: expected an object, got the end of the text'],
    ['text after the object',      `${jsonRequest('answer')}{}`,     'warning error: expected the end of the text at character 39, got "{"'],
    ['a field given twice',        '{"domain":"answer","domain":"answer"}', 'warning error: domain: given twice'],
    ['a wrong type, far inside',   '{"descriptors":[{"entries":[{"key":5}]}]}', 'warning error: descriptors[0].entries[0].key: expected a string, got 5'],
    ['a request beyond the bound', `{"descriptors":[${'{},'.repeat(4_096)}{}]}`,
      'warning error: descriptors[4096]: a request must not have more than 4096 descriptors'],
  ] as const
  for (const [name, request, line] of refused) {
    test(`6.2#${name.includes('decision') ? 3 : 2}: ${name}: 400, and the cause in the log only`, async () => {
      const { status, headers, body } = await post(request as string)
      expect([status, body]).toEqual(['400 Bad Request', 'Bad Request\n'])
      expect(headers['content-type']).toBe('text/plain; charset=utf-8')
      expect(headers['x-content-type-options']).toBe('nosniff')
      expect(logged).toEqual([line]) // 11.2
    })
  }

  test('6.2: a decision that throws: 400, and the stack in the log', async () => {
    expect((await post(jsonRequest('throw'))).status).toBe('400 Bad Request')
    expect(logged[0]).toMatch(/^error a decision threw: Error: a defect\n +at /)
    expect((await post(jsonRequest('twice'))).body).toBe(responseToJson(OK))
  })

  test('11.1: a defect of every request is one line per second', async () => {
    await Promise.all(Array.from({ length: 300 }, () => post(jsonRequest('throw'))))
    expect(logged.filter((line) => line.startsWith('error ')).length).toBeLessThan(150) // one per second
  })

  test('6.2#7: an invalid overall code: 500', async () => {
    const response = post(jsonRequest('wait'))
    await limiter.untilWaiting(1)
    limiter.waiting[0].onDecision({ ...OK, overallCode: 0, statuses: [] })
    expect(await response).toMatchObject({ status: '500 Internal Server Error', body: '{}' })
  })

  test('a response that is not immediate', async () => {
    const response = post(jsonRequest('wait'))
    await limiter.untilWaiting(1)
    limiter.release()
    expect((await response).status).toBe('200 OK')
  })

  test('6.2#4: a response that JSON cannot represent: 500, and the cause in the log only', async () => {
    const response = post(jsonRequest('wait'))
    await limiter.untilWaiting(1)
    limiter.waiting[0].onDecision({ ...OK, dynamicMetadata: { a: Number.NaN } })
    const { status, headers, body } = await response
    expect([status, body]).toEqual(['500 Internal Server Error', 'Internal Server Error\n'])
    expect(headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(logged).toEqual([
      'error a response cannot be written as JSON: dynamic metadata holds NaN, which JSON cannot represent',
    ])
  })

  // biome-ignore format: the columns are the specification
  const unreadable = [
    ['a chunk without a length',      'Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n'],
    ['an invalid second chunk',       'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nQQ\r\n'],
    ['chunks and a length',           'Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\n{}\r\n0\r\n\r\n'],
    ['a length that is not a number', 'Content-Length: x\r\n\r\n{}'],
    ['a length below zero',           'Content-Length: -3\r\n\r\n{}'],
    ['a length beyond all integers',  'Content-Length: 99999999999999999999\r\n\r\n{}'],
  ] as const
  for (const [name, rest] of unreadable) {
    test(`6.2#1: a body that cannot be read, ${name}: 400 from the library, and the connection ends`, async () => {
      const socket = open()
      const closed = once(socket, 'close')
      const response = readResponse(socket, true)
      socket.write(`POST /json HTTP/1.1\r\nHost: a\r\n${rest}`)
      expect((await response).status).toBe('400 Bad Request')
      await closed
      expect(limiter.requests).toEqual([])
      expect((await post(jsonRequest('answer'))).status).toBe('200 OK')
    })
  }

  test('6.2: the content type of a request is ignored', async () => {
    for (const type of ['application/json', 'text/xml', 'application/grpc', '']) {
      const reply = await send('POST /json', jsonRequest('answer'), `Content-Type: ${type}\r\n`)
      expect(reply.status).toBe('200 OK')
      expect(reply.headers['x-content-type-options']).toBeUndefined() // of errors only
    }
  })

  test('6.2: Expect: 100-continue is response with 100', async () => {
    const socket = open()
    const body = jsonRequest('answer')
    const length = `Content-Length: ${body.length}\r\n`
    socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${length}\r\n`)
    expect(String((await once(socket, 'data'))[0])).toBe('HTTP/1.1 100 Continue\r\n\r\n')
    const response = readResponse(socket)
    socket.write(body)
    expect((await response).status).toBe('200 OK')
  })

  test('6.2: pipelined requests are response in order', async () => {
    const socket = open()
    const request = (domain: string) =>
      `POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${jsonRequest(domain).length}\r\n\r\n${jsonRequest(domain)}`
    socket.write(request('answer') + request('over') + request('fail') + request('answer'))
    let text = ''
    while (text.split('HTTP/1.1 ').length < 5) text += String((await once(socket, 'data'))[0])
    expect(text.match(/HTTP\/1.1 \d+/g)!.map((line) => Number(line.slice(9)))).toEqual([200, 429, 400, 200])
  })

  test('6.2: a body in chunks, and in many packets', async () => {
    const socket = open()
    const response = readResponse(socket)
    socket.write('POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (const letter of jsonRequest('é')) {
      const bytes = Buffer.from(letter)
      socket.write(Buffer.concat([Buffer.from(`${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]))
      await new Promise(setImmediate)
    }
    socket.write('0\r\n\r\n')
    expect((await response).status).toBe('200 OK')
    expect(limiter.requests[0].domain).toBe('é')
  })

  test('one connection, many requests', async () => {
    const socket = open()
    for (let i = 0; i < 5; i++) {
      const body = jsonRequest(i % 2 === 0 ? 'answer' : 'over')
      const response = readResponse(socket)
      socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      expect((await response).status).toBe(i % 2 === 0 ? '200 OK' : '429 Too Many Requests')
    }
  })

  test('6.2: a body of the maximum size, and longer ones', async () => {
    const sized = (bytes: number) => jsonRequest('x'.repeat(bytes - jsonRequest('').length))
    expect((await post(sized(BODY_BYTES_MAX))).status).toBe('200 OK')
    const text = 'the body is longer than 20000 bytes (HTTP_BODY_MAX_BYTES)'
    for (const bytes of [BODY_BYTES_MAX + 1, 2 * BODY_BYTES_MAX, 2 * BODY_BYTES_MAX + 1]) {
      const { status, body, headers } = await post(sized(bytes))
      expect([status, body]).toEqual(['413 Content Too Large', `${text}\n`])
      expect(headers.connection).toBe(bytes > 2 * BODY_BYTES_MAX ? 'close' : undefined)
    }
    expect(logged).toEqual(Array(3).fill(`warning error: ${text}`))
    expect(limiter.requests.length).toBe(1)
  })

  test('6.2: an endless body is refused at twice the bound', async () => {
    const socket = open()
    const response = readResponse(socket)
    socket.write('POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let i = 0; i < 9; i++) socket.write(`1388\r\n${'x'.repeat(5_000)}\r\n`) // 0x1388 = 5,000
    expect((await response).status).toBe('413 Content Too Large')
  })

  test('a client that disconnects while it waits or sends does not affect others', async () => {
    const waits = open()
    waits.write(
      `POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 36\r\n\r\n${jsonRequest('wait').padEnd(36)}`,
    )
    await limiter.untilWaiting(1)
    waits.destroy()
    const sends = open()
    sends.write('POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{')
    sends.destroy()
    expect((await post(jsonRequest('answer'))).status).toBe('200 OK')
    limiter.release()
    expect((await post(jsonRequest('answer'))).status).toBe('200 OK')
    await server.drain(10_000) // none of the two counts as in flight
  })

  test('6.2: a storm of errors is ten lines per second', async () => {
    const failed = await Promise.all(Array.from({ length: 200 }, () => post('{')))
    expect(failed.every(({ status }) => status === '400 Bad Request')).toBe(true)
    expect(logged.length).toBeLessThan(150) // ten per second
  })
})

describe('life', () => {
  test('a port in use is one line', async () => {
    const other = createServer().listen(0, HOST)
    await once(other, 'listening')
    const { port } = other.address() as { port: number }
    const options = { bodyBytesMax: 1, limiter, health: { isHealthy: true, report: '' }, log: () => {} }
    expect(() => new HttpServer({ host: HOST, port, ...options })).toThrow(
      `127.0.0.1:${port}: cannot listen for HTTP: the port is taken, or the address is not of this machine.`,
    )
    other.close()
  })

  test('drain: no new connections; responses in flight have Connection: close, then the connection ends', async () => {
    const response = post(jsonRequest('wait'))
    const idle = open()
    idle.resume()
    await once(idle, 'connect')
    await limiter.untilWaiting(1)
    const drained = server.drain(10_000)
    const late = open()
    expect((await once(late, 'error'))[0].code).toBe('ECONNREFUSED')
    limiter.release()
    const { status, headers } = await response
    expect([status, headers.connection]).toEqual(['200 OK', 'close'])
    await drained
    await once(idle, 'close')
  })

  test('drain: a request that does not end is closed at the timeout', async () => {
    const socket = open()
    const body = jsonRequest('wait')
    socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await limiter.untilWaiting(1)
    const closed = once(socket, 'close')
    await server.drain(50)
    await closed
    limiter.release() // must not use the closed response
  })

  test('drain with nothing in flight does not wait for its timeout, and may be called twice', async () => {
    const timeoutMs = 2 ** 31 - 1 // the test would time out
    await server.drain(timeoutMs)
    await server.drain(timeoutMs)
  })
})
