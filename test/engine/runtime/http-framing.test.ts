/**
 * Which requests are served, by how they mark their end (RFC 9112, 6 and 7.1). Each case is sent with a second request
 * right behind it, in one packet, as a smuggled one would be; test/system/framing.test.ts does the same with the ports of a whole service.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Chunks, withStrictFraming } from '../../../engine/runtime/http-framing.ts'
import { endResponse } from '../../../engine/runtime/http-response.ts'
import { DIRECT } from '../../../monitor/api/client-address.ts'
import { ClientConnections } from '../../../monitor/api/client-connections.ts'
import { type HttpRequest, type HttpResponse, openUws, type UwsPort } from '../../../transports/uws.ts'
import { CHUNKED_BAD, CHUNKED_GOOD, HEADERS_BAD, HEADERS_GOOD } from './framings.ts'

const HERE = '127.0.0.1'
const NEXT = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n'

let port: UwsPort
let served: string[] // method, path and body of each request that reached the handler
let waiting: (() => void)[] // responses of /waits

afterEach(() => port.close())

/** Answers once the body has been read, at once for a path such as /early, later for /waits. */
function handle(res: HttpResponse, req: HttpRequest): void {
  const name = `${req.getCaseSensitiveMethod()} ${req.getUrl()}`
  const path = req.getUrl()
  let isClosed = false
  res.onAborted(() => {
    isClosed = true
  })
  const respond = () => {
    if (!isClosed) res.cork(() => endResponse(res, path, false))
  }
  if (path === '/early') {
    served.push(name)
    respond()
    return
  }
  let body = ''
  res.onData((chunk, isLast) => {
    body += Buffer.from(chunk).toString('latin1')
    if (!isLast) return
    served.push(`${name} ${body}`)
    if (path === '/waits') waiting.push(respond)
    else respond()
  })
}

function open(chunks: Chunks): void {
  served = []
  waiting = []
  port = openUws(HERE, 0, (app) => app.any('/*', withStrictFraming(handle, chunks)))!
}

/** All that comes back: until the other side closes, or until two requests have been served, which none may be. */
async function untilClosed(bytes: string, later = ''): Promise<string> {
  const socket = connect(port.port, HERE)
  onTestFinished(() => void socket.destroy())
  let text = ''
  const over = new Promise<void>((resolve) => {
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
      if (text.split('HTTP/1.1 200').length > 2) resolve()
    })
    socket.once('close', () => resolve())
  })
  socket.on('error', () => {}) // a reset is an end, too
  socket.write(bytes, 'latin1')
  if (later !== '') {
    while (!text.includes('\r\n\r\n')) await once(socket, 'data')
    socket.write(later, 'latin1')
  }
  await over
  return text
}

/** The responses to two requests on a connection that stays open. */
async function answersOfTwo(bytes: string): Promise<string> {
  const socket = connect(port.port, HERE)
  onTestFinished(() => void socket.destroy())
  let text = ''
  socket.setEncoding('latin1').write(bytes, 'latin1')
  while (text.split('HTTP/1.1 200').length < 3) text += (await once(socket, 'data'))[0]
  return text
}

describe('a request whose end is not clear', () => {
  test.each(HEADERS_BAD)('RFC 9112 6.3: %s: not served, nor is what follows', async (_, head, body) => {
    open('taken')
    const text = await untilClosed(`POST /a HTTP/1.1\r\nHost: a\r\n${head}\r\n${body}${NEXT}`)
    expect(served).toEqual([])
    expect(text).not.toContain('HTTP/1.1 200')
  })

  test('RFC 9112 6.3: alone on its connection, the response has the reason', async () => {
    open('taken')
    const text = await untilClosed(
      'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx',
    )
    expect(text).toMatch(
      /^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*\r\nConnection: close\r\n[\s\S]*\r\n\r\nthe length of the body/,
    )
    expect(served).toEqual([])
  })

  test.each(HEADERS_GOOD)('RFC 9112 6.3: %s: served, as is what follows', async (_, head, body) => {
    open('refused')
    await answersOfTwo(`POST /a HTTP/1.1\r\nHost: a\r\n${head}\r\n${body}${NEXT}`)
    expect(served).toEqual([`POST /a ${body}`, 'GET /next '])
  })
})

describe('chunks', () => {
  const post = (chunked: string, path = '/a') =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`

  test.each<[string, string, string?]>([...CHUNKED_GOOD, ...CHUNKED_BAD])(
    'RFC 9112 7.1: %s: nothing behind them is served',
    async (_, chunked) => {
      open('taken')
      const text = await untilClosed(post(chunked) + NEXT)
      expect(served.filter((request) => request.includes('/next'))).toEqual([])
      expect(text).not.toContain('HTTP/1.1 200')
    },
  )

  test.each(CHUNKED_GOOD)(
    'RFC 9112 7.1: %s: served when nothing is behind them, and the last',
    async (_, chunked, body) => {
      open('taken')
      const text = await untilClosed(post(chunked), NEXT)
      expect(served).toEqual([`POST /a ${body}`])
      expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*Connection: close\r\n[\s\S]*\r\n\r\n\/a$/)
    },
  )

  test.each(['/early', '/waits'])(
    'RFC 9112 7.1: nothing is served after a response that comes early or late: %s',
    async (path) => {
      open('taken')
      const text = await untilClosed(post(`2\r\nab??0\r\n??${NEXT}`, path))
      for (const respond of waiting) respond() // its client has disconnected; this must have no effect
      expect(text).toBe('')
      expect(served.filter((request) => request.includes('/next'))).toEqual([])
    },
  )

  test('RFC 9112 7.1: a response that comes late ends the connection, too', async () => {
    open('taken')
    const closed = untilClosed(post('2\r\nab\r\n0\r\n\r\n', '/waits'))
    while (waiting.length === 0) await new Promise(setImmediate)
    waiting[0]()
    expect(await closed).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*Connection: close\r\n[\s\S]*\r\n\r\n\/waits$/)
  })

  test.each(['GET', 'HEAD', 'DELETE', 'post'])('chunks are not taken with %s', async (method) => {
    open('taken')
    const text = await untilClosed(
      `${method} /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    )
    expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(served).toEqual([])
  })

  test('chunks are not taken where no body is read', async () => {
    open('refused')
    const text = await untilClosed(post('0\r\n\r\n'))
    expect(text).toMatch(
      /^HTTP\/1\.1 400 [\s\S]*\r\n\r\na chunked body is not read here; send Content-Length\n$/,
    )
    expect(served).toEqual([])
  })
})

test('4.5: connections that end like this are not counted for ever', async () => {
  served = []
  waiting = []
  const connections = new ClientConnections(DIRECT, 2)
  const plain = handle as Parameters<ClientConnections['serve']>[1]
  port = openUws(HERE, 0, (app) => connections.serve(app, plain))!
  const chunked = 'POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n'
  const invalid = 'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx'
  for (const bytes of [chunked, chunked + NEXT, invalid, invalid + NEXT]) await untilClosed(bytes)
  expect(connections.getCount(HERE)).toBe(0)
  expect(served).toEqual(['POST /a ab', 'POST /a ab'])
})
