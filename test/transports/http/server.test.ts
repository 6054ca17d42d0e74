/**
 * `/json` and the life of the HTTP port, with real sockets; paths and methods are in paths.test.ts.
 * The app runs in the test's own process; every test closes it, which uWebSockets.js insists on.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { responseToJson } from '../../../proto/json-response.ts'
import { HttpServer } from '../../../transports/http/server.ts'
import { FakeDecider, OK, OVER } from '../fake-decider.ts'
import { RawClient, readResponse } from './raw-client.ts'

const HOST = '127.0.0.1'
const BODY_BYTES_MAX = 20_000

let decider: FakeDecider
let server: HttpServer
let logged: string[]
let client: RawClient

beforeEach(() => {
  decider = new FakeDecider()
  logged = []
  server = new HttpServer({
    host: HOST,
    port: 0,
    bodyBytesMax: BODY_BYTES_MAX,
    decider,
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
const question = (domain: string) => JSON.stringify({ domain, descriptors: [{}] })
const post = (body: string | Buffer) => send('POST /json', body)

describe('6.2: /json', () => {
  test('6.2#5: OK is 200 with the response', async () => {
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

  test('6.2#6: OVER_LIMIT is 429 with the response', async () => {
    const { status, headers, body } = await post(question('over'))
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
    ['an error of the decision',   question('fail'),              'warning error: no rules today'],
    ['nothing',                    '',                            'warning error: expected an object, got the end of the text'],
    ['text after the object',      `${question('answer')}{}`,     'warning error: expected the end of the text at character 39, got "{"'],
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

  test('6.2: a decision that throws: 400, and its stack in the log', async () => {
    expect((await post(question('throw'))).status).toBe('400 Bad Request')
    expect(logged[0]).toMatch(/^error a decision threw: Error: a defect\n +at /)
    expect((await post(question('twice'))).body).toBe(responseToJson(OK))
  })

  test('11.1: a defect that every request meets is no flood of lines', async () => {
    for (let i = 0; i < 100; i++) await post(question('throw'))
    expect(logged.filter((line) => line.startsWith('error ')).length).toBeLessThan(50) // one a second
  })

  test('6.2#7: an overall code that should not be: 500', async () => {
    const asked = post(question('wait'))
    await decider.untilWaiting(1)
    decider.waiting[0].onDecision({ ...OK, overallCode: 0, statuses: [] })
    expect(await asked).toMatchObject({ status: '500 Internal Server Error', body: '{}' })
  })

  test('an answer that comes later', async () => {
    const asked = post(question('wait'))
    await decider.untilWaiting(1)
    decider.release()
    expect((await asked).status).toBe('200 OK')
  })

  test('6.2#4: a response that JSON cannot represent: 500, and the cause in the log only', async () => {
    const asked = post(question('wait'))
    await decider.untilWaiting(1)
    decider.waiting[0].onDecision({ ...OK, dynamicMetadata: { a: Number.NaN } })
    const { status, headers, body } = await asked
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
    ['a second chunk that is none',   'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nQQ\r\n'],
    ['chunks and a length',           'Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\n{}\r\n0\r\n\r\n'],
    ['a length that is no number',    'Content-Length: x\r\n\r\n{}'],
    ['a length below zero',           'Content-Length: -3\r\n\r\n{}'],
    ['a length beyond all numbers',   'Content-Length: 99999999999999999999\r\n\r\n{}'],
  ] as const
  for (const [name, rest] of unreadable) {
    test(`6.2#1: a body that cannot be read, ${name}: 400 from the library, and the connection ends`, async () => {
      const socket = open()
      const closed = once(socket, 'close')
      const answered = readResponse(socket, true)
      socket.write(`POST /json HTTP/1.1\r\nHost: a\r\n${rest}`)
      expect((await answered).status).toBe('400 Bad Request')
      await closed
      expect(decider.requests).toEqual([])
      expect((await post(question('answer'))).status).toBe('200 OK')
    })
  }

  test('6.2: the content type of a request means nothing', async () => {
    for (const type of ['application/json', 'text/xml', 'application/grpc', '']) {
      const answer = await send('POST /json', question('answer'), `Content-Type: ${type}\r\n`)
      expect(answer.status).toBe('200 OK')
      expect(answer.headers['x-content-type-options']).toBeUndefined() // of errors only
    }
  })

  test('6.2: a client that asks to be told when to go on is told', async () => {
    const socket = open()
    const body = question('answer')
    const length = `Content-Length: ${body.length}\r\n`
    socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${length}\r\n`)
    expect(String((await once(socket, 'data'))[0])).toBe('HTTP/1.1 100 Continue\r\n\r\n')
    const answered = readResponse(socket)
    socket.write(body)
    expect((await answered).status).toBe('200 OK')
  })

  test('6.2: requests one behind the other are answered in order', async () => {
    const socket = open()
    const request = (domain: string) =>
      `POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${question(domain).length}\r\n\r\n${question(domain)}`
    socket.write(request('answer') + request('over') + request('fail') + request('answer'))
    let text = ''
    while (text.split('HTTP/1.1 ').length < 5) text += String((await once(socket, 'data'))[0])
    expect(text.match(/HTTP\/1.1 \d+/g)!.map((line) => Number(line.slice(9)))).toEqual([200, 429, 400, 200])
  })

  test('6.2: a body in chunks, and in many packets', async () => {
    const socket = open()
    const answered = readResponse(socket)
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
      const answered = readResponse(socket)
      socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      expect((await answered).status).toBe(i % 2 === 0 ? '200 OK' : '429 Too Many Requests')
    }
  })

  test('6.2: a body of the largest size, and others that are too long', async () => {
    const sized = (bytes: number) => question('x'.repeat(bytes - question('').length))
    expect((await post(sized(BODY_BYTES_MAX))).status).toBe('200 OK')
    const text = 'the body is longer than 20000 bytes (HTTP_BODY_MAX_BYTES)'
    for (const bytes of [BODY_BYTES_MAX + 1, 2 * BODY_BYTES_MAX, 2 * BODY_BYTES_MAX + 1]) {
      const { status, body, headers } = await post(sized(bytes))
      expect([status, body]).toEqual(['413 Content Too Large', `${text}\n`])
      expect(headers.connection).toBe(bytes > 2 * BODY_BYTES_MAX ? 'close' : undefined)
    }
    expect(logged).toEqual(Array(3).fill(`warning error: ${text}`))
    expect(decider.requests.length).toBe(1)
  })

  test('6.2: a body without an end is given up at twice the bound', async () => {
    const socket = open()
    const answered = readResponse(socket)
    socket.write('POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let i = 0; i < 9; i++) socket.write(`1388\r\n${'x'.repeat(5_000)}\r\n`) // 0x1388 = 5,000
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

  test('6.2: a storm of errors is ten lines', async () => {
    const failed = await Promise.all(Array.from({ length: 50 }, () => post('{')))
    expect(failed.every(({ status }) => status === '400 Bad Request')).toBe(true)
    expect(logged.length).toBeLessThanOrEqual(20) // ten in each second the storm touches
  })
})

describe('life', () => {
  test('a port held by another program is one clear line', async () => {
    const stranger = createServer().listen(0, HOST)
    await once(stranger, 'listening')
    const { port } = stranger.address() as { port: number }
    const options = { bodyBytesMax: 1, decider, health: { isHealthy: true, report: '' }, log: () => {} }
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
