/** How many connections a client address may have (spec 4.5), over real sockets: every way in which one ends must be counted. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { endHeadResponse, endResponse } from '../../../engine/runtime/http-response.ts'
import { type AddressOptions, DIRECT } from '../../../monitor/api/client-address.ts'
import { ClientConnections, placesFor } from '../../../monitor/api/client-connections.ts'
import type { HttpRequest, HttpResponse } from '../../../monitor/api/sockets.ts'
import { parseRange } from '../../../monitor/egress/address.ts'
import { openUws, type UwsPort } from '../../../transports/uws.ts'
import { eventually } from '../../helpers/eventually.ts'
import { startApi } from './setup.ts'

const HERE = '127.0.0.1'
const LARGE = 'x'.repeat(16 * 1024 * 1024) // more than the sockets of both sides hold
const THERE = '127.0.0.2'

let connections: ClientConnections
let port: UwsPort
let sockets: Socket[]
let requestsCount: number
let heldResponses: (() => void)[] // ends responses of /held outside of a cork, so the connection closes within `end`

function open(connectionsMax?: number, options: AddressOptions = DIRECT, allMax?: number) {
  connections = new ClientConnections(options, connectionsMax, allMax)
  port = openUws('127.0.0.1', 0, (app) => connections.serve(app, respond))!
}

function respond(res: HttpResponse, req: HttpRequest): void {
  requestsCount++
  const path = req.getUrl()
  if (path === '/resets-second') sockets[1].resetAndDestroy()
  let isClosed = false
  res.onAborted(() => {
    isClosed = true
  })
  const text = path === '/large' ? LARGE : 'ok'
  const end = () => {
    if (isClosed) return
    if (path === '/head') endHeadResponse(res, 5)
    else if (path === '/nothing') {
      res.endWithoutBody()
      res.closeSoon?.()
    } else endResponse(res, text, path === '/closing')
  }
  if (path === '/held') heldResponses.push(end)
  else if (path === '/later') setImmediate(() => !isClosed && res.cork(end))
  else res.cork(end)
}

beforeEach(() => {
  sockets = []
  heldResponses = []
  requestsCount = 0
})
afterEach(() => {
  for (const socket of sockets) socket.destroy()
  port.close()
})

function connectFrom(localAddress = HERE): Socket & { text: string } {
  const socket = Object.assign(connect({ host: '127.0.0.1', port: port.port, localAddress }), { text: '' })
  socket.on('error', () => {}) // some tests reset
  socket.on('data', (chunk) => {
    socket.text += chunk
  })
  sockets.push(socket)
  return socket
}

const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
const countResponses = ({ text }: { text: string }) => text.split('HTTP/1.1 200').length - 1
const untilCount = (count: number, client = HERE) =>
  eventually(() => expect(connections.getCount(client)).toBe(count))

describe('M4.5#9: the bound', () => {
  test('the connection beyond the bound is closed without a response; others are accepted', async () => {
    open(3)
    const first = [connectFrom(), connectFrom(), connectFrom()]
    await untilCount(3)
    const refused = connectFrom()
    refused.write(get('/'))
    await once(refused, 'close')
    expect([refused.text, connections.refusedCount, connections.getCount(HERE)]).toEqual(['', 1, 3])
    const other = connectFrom(THERE)
    other.write(get('/'))
    await eventually(() => expect(countResponses(other)).toBe(1))
    first[0].destroy()
    await untilCount(2)
    const next = connectFrom()
    next.write(get('/'))
    await eventually(() => expect(countResponses(next)).toBe(1))
    await untilCount(3)
  })

  test('counts a client with an unread response until it disconnects', async () => {
    open()
    const [reader, leaver] = [connectFrom().pause(), connectFrom().pause()]
    for (const socket of [reader, leaver]) socket.write(get('/large'))
    await eventually(() => expect(requestsCount).toBe(2))
    leaver.destroy()
    await untilCount(1)
    reader.resume()
    await eventually(() => expect(reader.text.length).toBeGreaterThan(LARGE.length))
    expect(connections.getCount(HERE)).toBe(1)
    reader.write(get('/'))
    await eventually(() => expect(countResponses(reader)).toBe(2))
    reader.destroy()
    await untilCount(0)
  })

  test('is not used up by responses without a body: their connections end', async () => {
    open()
    const [head, nothing] = [connectFrom(), connectFrom()]
    head.write(get('/head').replace('GET', 'HEAD'))
    nothing.write(get('/nothing').repeat(1_000))
    await Promise.all([once(head, 'close'), once(nothing, 'close')])
    expect([countResponses(head), connections.getCount(HERE)]).toEqual([1, 0])
    const next = connectFrom()
    next.write(get('/'))
    await eventually(() => expect(countResponses(next)).toBe(1))
  })

  test('is 64', async () => {
    open()
    for (let i = 0; i < 64; i++) connectFrom()
    await untilCount(64)
    await once(connectFrom(), 'close')
    expect([connections.getCount(HERE), connections.refusedCount]).toEqual([64, 1])
  })

  test('does not apply to trusted proxies', async () => {
    const trusted = [{ base: Uint8Array.of(127, 0, 0, 1), bits: 32 }]
    open(1, { ...DIRECT, trusted })
    const both = [connectFrom(), connectFrom()]
    for (const socket of both) socket.write(get('/'))
    await eventually(() => expect(both.map(countResponses)).toEqual([1, 1]))
    expect([connections.getCount(HERE), connections.refusedCount]).toEqual([0, 0])
  })
})

describe('4.5: a connection that ends is no longer counted', () => {
  // biome-ignore format: the columns are what is sent, one write each, and how many responses come
  const ways: [string, string[], number][] = [
    ['without a request',                 [],                                             0],
    ['within a header',       ['GET / HT'],                                   0],
    ['after a response',                [get('/')],                                     1],
    ['after several',                   [get('/'), get('/later'), get('/')],            3],
    ['after three at once',             [get('/') + get('/') + get('/')],               3],
    ['before its response',              [get('/held')],                                 0],
    ['before its second response',        [get('/'), get('/held')],                       1],
    ['within a body',         ['POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab'], 0],
  ]
  for (const [what, writes, count] of ways) {
    for (const end of ['destroy', 'resetAndDestroy'] as const) {
      test(`${what}, by ${end}`, async () => {
        open()
        const socket = connectFrom()
        await once(socket, 'connect')
        for (const [i, text] of writes.entries()) {
          socket.write(text)
          await eventually(() =>
            expect(countResponses(socket)).toBeGreaterThanOrEqual(Math.min(count, i + 1)),
          )
        }
        await eventually(() =>
          expect([countResponses(socket), heldResponses.length]).toEqual([
            count,
            Number(writes.at(-1)?.includes('/held') ?? 0),
          ]),
        )
        await untilCount(1)
        socket[end]()
        await untilCount(0)
      })
    }
  }

  // biome-ignore format: as above
  const closing: [string, string][] = [
    ['by the server, with a response',       get('/closing')],
    ['with Connection: close',                     get('/', 'Connection: close\r\n')],
    ['with Connection: close, response later',     get('/later', 'Connection: close\r\n')],
    ['as HTTP/1.0',                         'GET / HTTP/1.0\r\n\r\n'],
    ['because it is not HTTP',                '\0\r\n\r\n'],
    ['after a response, because it is not HTTP', `${get('/')}\0\r\n\r\n`],
    ['because of a second request before the response',  get('/later') + get('/later')],
  ]
  for (const [what, text] of closing) {
    test(`closed ${what}`, async () => {
      open()
      const socket = connectFrom()
      socket.write(text)
      await once(socket, 'close')
      await untilCount(0)
    })
  }

  test('closed within `end`, outside of a cork', async () => {
    open()
    const socket = connectFrom()
    socket.write(get('/held', 'Connection: close\r\n'))
    await eventually(() => expect(heldResponses.length).toBe(1))
    expect(connections.getCount(HERE)).toBe(1)
    heldResponses[0]()
    expect(connections.getCount(HERE)).toBe(0)
    await once(socket, 'close')
  })

  test('reset between its request and its handler: its address is unknown by then', async () => {
    open()
    const [first, other] = [connectFrom(), connectFrom()]
    await untilCount(2)
    first.write(get('/resets-second')) // both are ready in one turn of the loop, and this one comes first
    other.write(get('/'))
    await eventually(() => expect(countResponses(first)).toBe(1))
    await untilCount(1)
    expect(requestsCount).toBe(1)
  })
})

test('4.5: the whole API behind it', async () => {
  const api = await startApi()
  connections = new ClientConnections(DIRECT)
  port = openUws('127.0.0.1', 0, (app) => connections.serve(app, (res, req) => api.api.handle(res, req)))!
  const body = '{"url":"https://a.example.com"}'
  const post = `POST /api/v1/detections HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const requests = [
    get('/api/v1/sites'),
    get('/api/v1/sites/alpha'),
    get('/api/v1/x'),
    post,
    'HEAD /api/v1/meta HTTP/1.1\r\nHost: a\r\n\r\n',
  ]
  const socket = connectFrom()
  for (const [i, text] of requests.entries()) {
    socket.write(text)
    await eventually(() => expect(socket.text.split(/HTTP\/1\.1 \d/).length - 1).toBe(i + 1))
    expect(connections.getCount(HERE)).toBe(1)
  }
  socket.destroy()
  await untilCount(0)
  api.close()
})

test('4.5: the bound of all addresses together, trusted proxies included; a place that becomes free is used again', async () => {
  open(10, { ...DIRECT, trusted: [parseRange('127.0.0.9/32')!] }, 3)
  const first = [connectFrom(HERE), connectFrom(THERE), connectFrom('127.0.0.9')]
  await Promise.all(first.map((socket) => once(socket, 'connect')))
  for (const socket of first) socket.write(get('/'))
  await eventually(() => expect(first.map(countResponses)).toEqual([1, 1, 1]))
  for (const address of ['127.0.0.3', '127.0.0.9']) await once(connectFrom(address), 'close')
  expect([connections.fullCount, connections.refusedCount]).toEqual([2, 2])
  first[0].end()
  await once(first[0], 'close')
  // The server may see the end of the first one later than this test does: a connection before that is closed.
  await eventually(async () => {
    const next = connectFrom('127.0.0.4')
    next.write(get('/'))
    await Promise.race([once(next, 'data'), once(next, 'close')])
    expect(countResponses(next)).toBe(1)
  })
})

// biome-ignore format: a table
test.each([
  ['a counted client',  DIRECT,                                                2], // one per route of the library
  ['a trusted proxy',   { ...DIRECT, trusted: [parseRange('127.0.0.1')!] },    1],
] as const)('4.5: Expect: 100-continue of %s', async (_, options, interimCount) => {
  open(64, options)
  const socket = connectFrom()
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n')
  await eventually(() => expect(countResponses(socket)).toBe(1))
  expect(socket.text.split('HTTP/1.1 100 Continue\r\n\r\n').length - 1).toBe(interimCount)
  expect(socket.text.lastIndexOf('100 Continue')).toBeLessThan(socket.text.indexOf('HTTP/1.1 200'))
  socket.write(`ok${get('/')}`)
  await eventually(() => expect(countResponses(socket)).toBe(2))
})

test('4.5: a quarter of the files that the process may open', () => {
  expect([placesFor(300), placesFor(1), placesFor(1_048_576), placesFor(Infinity)]).toEqual([
    75, 1, 4_096, 4_096,
  ])
})
