/** Every path by every method (spec 6.1), with real sockets. */
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { responseToJson } from '../../../proto/json-response.ts'
import { HttpServer } from '../../../transports/http/server.ts'
import { FakeRateLimiter, OK } from '../fake-rate-limiter.ts'
import { RawClient, readResponse } from './raw-client.ts'

const TEXT = 'text/plain; charset=utf-8'
const JSON_TYPE = 'application/json'

let limiter: FakeRateLimiter
let server: HttpServer
let client: RawClient

beforeEach(() => {
  limiter = new FakeRateLimiter()
  server = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    bodyBytesMax: 1_000,
    limiter,
    health: { isHealthy: true, report: 'sigterm: ok\n' },
    log: () => {},
  })
  client = new RawClient(server.port)
})
afterEach(() => {
  client.close()
  server.close()
})

const question = (domain: string) => JSON.stringify({ domain, descriptors: [{}] })
const open = () => client.open()
const send: RawClient['send'] = (...request) => client.send(...request)

describe('6.1: paths and methods', () => {
  const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'ODD', 'HEAD']
  // biome-ignore format: the columns are the specification
  const rows = [
    // target                  with body  ->  status, type, body, nosniff
    ['/healthcheck',              false, '200 OK',          TEXT, 'OK',                     undefined],
    ['/healthcheck?',             false, '200 OK',          TEXT, 'OK',                     undefined],
    ['/healthcheck?a=/../b//c',   false, '200 OK',          TEXT, 'OK',                     undefined],
    ['/healthcheck',              true,  '200 OK',          TEXT, 'OK',                     undefined],
    ['/json',                     true,  '200 OK',          JSON_TYPE, responseToJson(OK),  undefined],
    ['/json?',                    true,  '200 OK',          JSON_TYPE, responseToJson(OK),  undefined],
    ['/json?domain=x&/../b//c',   true,  '200 OK',          JSON_TYPE, responseToJson(OK),  undefined],
    ['/json',                     false, '400 Bad Request', TEXT, 'Bad Request\n',          'nosniff'],
    ['/json?{}',                  false, '400 Bad Request', TEXT, 'Bad Request\n',          'nosniff'],
    ['/json/',                    true,  '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/JSON',                     true,  '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/json/x',                   true,  '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/jsonx',                    true,  '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/healthcheck/',             false, '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/HealthCheck',              false, '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/',                         false, '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/?/json',                   false, '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/nope',                     false, '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'],
    ['/stats',                    false, '404 Not Found',   TEXT, '404 page not found\n',   'nosniff'], // debug port
  ] as const
  for (const [target, hasBody, status, type, body, sniff] of rows) {
    const row = target.startsWith('/healthcheck') && body === 'OK' ? 1 : status.startsWith('404') ? 3 : 2
    test(`6.1#${row}: ${target} ${hasBody ? 'with a body' : 'without a body'} is ${status}, by any method`, async () => {
      for (const method of METHODS) {
        const answer = await send(`${method} ${target}`, hasBody ? question('answer') : '')
        const { headers } = answer
        expect([method, answer.status, headers['content-type'], headers['x-content-type-options']]).toEqual([
          method,
          status,
          type,
          sniff,
        ])
        expect(headers['content-length']).toBe(String(Buffer.byteLength(body))) // HEAD is told, too
        expect(answer.body).toBe(method === 'HEAD' ? '' : body)
      }
    })
  }

  test('6.1: HEAD /json over the limit is 429', async () => {
    expect(await send('HEAD /json', question('over'))).toMatchObject({
      status: '429 Too Many Requests',
      body: '',
    })
  })

  test('6.1: HEAD ends the connection', async () => {
    for (const target of ['/healthcheck', '//json']) {
      const socket = open()
      const answered = readResponse(socket, true)
      socket.write(`HEAD ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)
      const { status, headers } = await answered
      expect(status).toMatch(/^[234]/)
      expect(headers.connection).toBe('close')
      await once(socket, 'close')
    }
  })

  for (const line of ['GET /healthcheck', 'GET /nope', 'GET //nope', 'HEAD /healthcheck', 'POST /json']) {
    test(`unread responses to ${line} are bounded: the connection ends`, async () => {
      const body = line === 'POST /json' ? question('ok') : ''
      const requests = `${line} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`.repeat(
        1_000,
      )
      const socket = open().pause()
      let hasEnded = false
      socket.on('close', () => (hasEnded = true))
      let written = 0
      for (; !hasEnded && written < 1_000; written++) {
        socket.write(requests)
        await nextTurn()
      }
      expect(hasEnded).toBe(true)
    })
  }

  test('8.2: with ?verbose the body is the report, under the same status', async () => {
    const well = await send('GET /healthcheck?verbose')
    server.health = { isHealthy: false, report: 'sigterm: failing\n' }
    const ill = await send('GET /healthcheck?verbose')
    expect([well.status, well.headers['content-type'], well.body]).toEqual(['200 OK', TEXT, 'sigterm: ok\n'])
    expect([ill.status, ill.headers['content-type'], ill.body]).toEqual([
      '500 Internal Server Error',
      TEXT,
      'sigterm: failing\n',
    ])
    expect((await send('GET /healthcheck?verbosely')).body).toBe('')
  })

  test('6.1: unhealthy is 500 with an empty body, by any method', async () => {
    server.health = { isHealthy: false, report: 'sigterm: failing\n' }
    for (const method of METHODS) {
      const { status, headers, body } = await send(`${method} /healthcheck`)
      expect([status, headers['content-type'], headers['content-length'], body]).toEqual([
        '500 Internal Server Error',
        undefined,
        '0',
        '',
      ])
    }
  })

  // biome-ignore format: the columns are the specification
  const redirected = [
    ['//json',                '/json'],
    ['/json//',               '/json/'],
    ['/x/../json',            '/json'],
    ['/./json/',              '/json/'],
    ['/json/.',               '/json'],
    ['/json/..',              '/'],
    ['/json/../',             '/'],
    ['/a/./b//c/../d/',       '/a/b/d/'],
    ['/..',                   '/'],
    ['/../../healthcheck',    '/healthcheck'],
    ['///',                   '/'],
    ['//json?a=b',            '/json?a=b'],
    ['//json?a=/../b//c',     '/json?a=/../b//c'], // the query is nobody's path
    ['//example.org/..',      '/'], // never to another host
    ['//example.org/json',    '/example.org/json'],
  ] as const
  for (const [target, location] of redirected) {
    test(`6.1: ${target} is 301 to ${location}, by any method`, async () => {
      for (const method of METHODS) {
        const { status, headers, body } = await send(`${method} ${target}`, method === 'POST' ? '{}' : '')
        expect([status, headers.location, headers['content-length'], body]).toEqual([
          '301 Moved Permanently',
          location,
          '0',
          '',
        ])
      }
      expect(limiter.requests).toEqual([])
    })
  }

  for (const target of ['*', 'json', 'http://a/json']) {
    test(`6.1: the target ${target} is no path: the library refuses it`, async () => {
      const socket = open()
      const answered = readResponse(socket, true)
      socket.write(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)
      expect((await answered).status).toBe('505 HTTP Version Not Supported')
    })
  }
})
