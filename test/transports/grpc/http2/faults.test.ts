/**
 * Protocol errors of a peer (RFC 9113), and what each ends: one stream (RST_STREAM) or the connection (GOAWAY). Another
 * connection is served afterwards in all cases.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Flag, FrameType, Setting } from '../../../../transports/grpc/http2/frames.ts'
import { size } from '../../../helpers/size.ts'
import { ask, openHttp2 } from './port.ts'
import {
  block,
  data,
  FIELDS,
  field,
  frame,
  HELLO,
  headers,
  message,
  RawPeer,
  REQUEST,
  settings,
  u32,
} from './raw-peer.ts'

const { EndStream, EndHeaders, Padded, Priority } = Flag
const NONE = Buffer.alloc(0)
const LAST = EndHeaders | EndStream
const ping = (id: number, bytes: number) => frame(FrameType.Ping, 0, id, Buffer.alloc(bytes))
const rst = (id: number) => frame(FrameType.RstStream, 0, id, u32(8))
const windowUpdate = (id: number, count: number) => frame(FrameType.WindowUpdate, 0, id, u32(count))
const priority = (id: number, on: number) =>
  frame(FrameType.Priority, 0, id, Buffer.concat([u32(on), Buffer.of(1)]))
const more = (id: number, bytes: Uint8Array, flags = 0) => frame(FrameType.Continuation, flags, id, bytes)
const request = (changed: Record<string, string>, ...fields: Buffer[]) =>
  Buffer.concat([block({ ...FIELDS, ...changed }), ...fields])
const without = (name: string) =>
  block(Object.fromEntries(Object.entries(FIELDS).filter(([each]) => each !== name)))
const open = headers(1, REQUEST)
const whole = Buffer.concat([open, data(1, ask('answer'))])
const waiting = Buffer.concat([open, data(1, ask('wait'))])

// biome-ignore format: the columns are the specification
const faults: [section: string, what: string, outcome: string, ...frames: Buffer[]][] = [
  ['4.2',   'a frame of 16,385 bytes',                        'GOAWAY 6', frame(FrameType.Data, 0, 1, Buffer.alloc(16_385))],
  ['5.1',   'DATA on an idle stream',                         'GOAWAY 1', data(1, NONE)],
  ['5.1',   'RST_STREAM on an idle stream',                   'GOAWAY 1', rst(1)],
  ['5.1',   'WINDOW_UPDATE on an idle stream',                'GOAWAY 1', windowUpdate(1, 1)],
  ['5.1',   'DATA after END_STREAM, while it runs',           'RST 5',    waiting, data(1, NONE)],
  ['5.1',   'HEADERS after END_STREAM, while it runs',        'RST 5',    waiting, headers(1, REQUEST, LAST)],
  ['5.1',   'DATA on a stream taken back',                    'RST 5',    open, rst(1), data(1, NONE)],
  ['5.1',   'HEADERS on a stream taken back',                 'GOAWAY 5', open, rst(1), headers(1, REQUEST)],
  ['5.1.1', 'an even stream id'     ,                         'GOAWAY 1', headers(2, REQUEST)],
  ['5.1.1', 'stream ids that fall',                           'GOAWAY 1', headers(5, REQUEST), headers(3, REQUEST)],
  ['6.1',   'DATA without a stream',                          'GOAWAY 1', data(0, NONE)],
  ['6.1',   'DATA, padded, empty',                            'GOAWAY 6', open, data(1, NONE, Padded)],
  ['6.1',   'DATA with more padding than frame',              'GOAWAY 1', open, data(1, Buffer.of(2, 0), Padded)],
  ['6.2',   'HEADERS without a stream',                       'GOAWAY 1', headers(0, REQUEST)],
  ['6.2',   'HEADERS with more padding than frame',           'GOAWAY 1', headers(1, Buffer.of(200, 0x82), EndHeaders | Padded)],
  ['5.3.1', 'HEADERS with a priority on itself',              'RST 1',    headers(1, Buffer.concat([u32(1), Buffer.of(1), REQUEST]), EndHeaders | Priority)],
  ['6.3',   'PRIORITY without a stream',                      'GOAWAY 1', priority(0, 1)],
  ['6.3',   'PRIORITY of 4 bytes',                            'RST 6',    open, frame(FrameType.Priority, 0, 1, u32(0))],
  ['5.3.1', 'PRIORITY on itself',                             'RST 1',    open, priority(1, 1)],
  ['6.4',   'RST_STREAM without a stream',                    'GOAWAY 1', rst(0)],
  ['6.4',   'RST_STREAM of 3 bytes',                          'GOAWAY 6', open, frame(FrameType.RstStream, 0, 1, Buffer.alloc(3))],
  ['6.5',   'SETTINGS on a stream',                           'GOAWAY 1', frame(FrameType.Settings, 0, 1)],
  ['6.5',   'SETTINGS of 5 bytes',                            'GOAWAY 6', frame(FrameType.Settings, 0, 0, Buffer.alloc(5))],
  ['6.5',   'an acknowledgement that says something',         'GOAWAY 6', frame(FrameType.Settings, Flag.Ack, 0, Buffer.alloc(6))],
  ['6.5.2', 'ENABLE_PUSH 2',                                  'GOAWAY 1', settings([Setting.EnablePush, 2])],
  ['6.5.2', 'INITIAL_WINDOW_SIZE 2^31',                       'GOAWAY 3', settings([Setting.InitialWindowSize, 2 ** 31])],
  ['6.5.2', 'MAX_FRAME_SIZE 16,383',                          'GOAWAY 1', settings([Setting.MaxFrameSize, 16_383])],
  ['6.5.2', 'MAX_FRAME_SIZE 2^24',                            'GOAWAY 1', settings([Setting.MaxFrameSize, 2 ** 24])],
  ['6.6',   'PUSH_PROMISE',                                   'GOAWAY 1', frame(FrameType.PushPromise, EndHeaders, 1, u32(2))],
  ['6.7',   'PING on a stream',                               'GOAWAY 1', ping(1, 8)],
  ['6.7',   'PING of 7 bytes',                                'GOAWAY 6', ping(0, 7)],
  ['6.8',   'GOAWAY on a stream',                             'GOAWAY 1', frame(FrameType.Goaway, 0, 1, Buffer.alloc(8))],
  ['6.9',   'WINDOW_UPDATE of 3 bytes',                       'GOAWAY 6', frame(FrameType.WindowUpdate, 0, 0, Buffer.alloc(3))],
  ['6.9',   'WINDOW_UPDATE of 0',                             'GOAWAY 1', windowUpdate(0, 0)],
  ['6.9',   'WINDOW_UPDATE of 0 on a stream',                 'RST 1',    open, windowUpdate(1, 0)],
  ['6.9.1', 'a window above 2^31-1',                          'GOAWAY 3', windowUpdate(0, 2 ** 31 - 1)],
  ['6.9.1', 'a window above 2^31-1 of a stream',              'RST 3',    open, windowUpdate(1, 2 ** 31 - 1)],
  ['6.9.2', 'windows above 2^31-1 by SETTINGS',               'GOAWAY 3', open, windowUpdate(1, 2), settings([Setting.InitialWindowSize, 2 ** 31 - 1])],
  ['6.10',  'CONTINUATION without HEADERS',                        'GOAWAY 1', more(1, REQUEST)],
  ['6.10',  'CONTINUATION of another stream',                 'GOAWAY 1', headers(1, REQUEST, 0), more(3, NONE, EndHeaders)],
  ['6.10',  'another frame within a header block',            'GOAWAY 1', headers(1, REQUEST, 0), windowUpdate(0, 1)],
  ['6.10',  'an unknown frame within a header block',         'GOAWAY 1', headers(1, REQUEST, 0), frame(99, 0, 0)],
  ['4.3',   'a block that cannot be read',                    'GOAWAY 9', headers(1, Buffer.of(0x80))],
  ['8.1',   'trailers without END_STREAM',                    'RST 1',    open, headers(1, block({ a: 'b' }))],
  ['8.1',   'a pseudo header in trailers',                    'RST 1',    open, headers(1, block({ ':path': '/' }), LAST)],
  ['8.1.1', 'less DATA than content-length',                  'RST 1',    headers(1, request({ 'content-length': '99' })), data(1, ask('answer'))],
  ['8.1.1', 'content-length without DATA',                    'RST 1',    headers(1, request({ 'content-length': '1' }), LAST)],
  ['8.1.1', 'two content-lengths',                            'RST 1',    headers(1, request({ 'content-length': '1' }, field('content-length', '2')))],
  ['8.1.1', 'a content-length that is no number',             'RST 1',    headers(1, request({ 'content-length': '-1' }))],
  ['8.2',   'a name in upper case',                           'RST 1',    headers(1, request({ 'X-A': '' }))],
  ['8.2.1', 'a line feed in a value',                         'RST 1',    headers(1, request({ a: 'b\nc' }))],
  ['8.2.1', 'a NUL in a value that is kept',                  'RST 1',    headers(1, request({ ':path': '/\0' }))],
  ['8.2.1', 'a space in a name',                              'RST 1',    headers(1, request({ 'a b': '' }))],
  ['8.2.2', 'connection',                                     'RST 1',    headers(1, request({ connection: 'close' }))],
  ['8.2.2', 'transfer-encoding',                              'RST 1',    headers(1, request({ 'transfer-encoding': 'chunked' }))],
  ['8.2.2', 'te with more than trailers',                     'RST 1',    headers(1, request({ te: 'trailers, gzip' }))],
  ['8.3',   'a pseudo header nobody knows',                   'RST 1',    headers(1, request({}, field(':a', 'b')))],
  ['8.3',   'a pseudo header of answers',                     'RST 1',    headers(1, Buffer.concat([field(':status', '200'), REQUEST]))],
  ['8.3',   'a pseudo header after others',                   'RST 1',    headers(1, request({}, field(':authority', 'b')))],
  ['8.3.1', 'no :method',                                     'RST 1',    headers(1, without(':method'))],
  ['8.3.1', 'no :scheme',                                     'RST 1',    headers(1, without(':scheme'))],
  ['8.3.1', 'no :path',                                       'RST 1',    headers(1, without(':path'))],
  ['8.3.1', 'an empty :path',                                 'RST 1',    headers(1, request({ ':path': '' }))],
  ['8.3.1', 'two :path',                                      'RST 1',    headers(1, Buffer.concat([field(':path', '/'), REQUEST]))],
]

for (const [section, what, outcome, ...frames] of faults) {
  test(`RFC 9113 ${section}: ${what}: ${outcome}`, async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.send(...frames)
    expect(await peer.outcome(1)).toBe(outcome)
    if (outcome.startsWith('RST')) {
      peer.send(headers(7, REQUEST), data(7, ask('answer'))) // the connection continues with its table in step
      expect(await peer.outcome(7)).toBe('answer')
    } else {
      await peer.until(() => false)
      const other = await RawPeer.hello(port)
      other.send(whole)
      expect(await other.outcome(1)).toBe('answer')
    }
  })
}

describe('the preface', () => {
  // biome-ignore format: the columns are the specification
  const beginnings: [string, string, Buffer][] = [
    ['something else',          'GOAWAY 1', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['no SETTINGS',             'GOAWAY 1', Buffer.concat([HELLO.subarray(0, 24), ping(0, 8)])],
    ['an acknowledgement only', 'GOAWAY 1', Buffer.concat([HELLO.subarray(0, 24), frame(FrameType.Settings, Flag.Ack, 0)])],
    ['a preface that ends wrong', 'GOAWAY 1', Buffer.concat([HELLO.subarray(0, 23), Buffer.of(0)])],
  ]
  for (const [what, outcome, bytes] of beginnings) {
    test(`RFC 9113 3.4: ${what}: ${outcome}`, async () => {
      const { port } = await openHttp2()
      const peer = new RawPeer(port)
      peer.send(bytes)
      expect(await peer.outcome(1)).toBe(outcome)
    })
  }
})

describe('is no error', () => {
  // biome-ignore format: the columns are the specification
  const good: [string, ...Buffer[]][] = [
    ['an unknown frame, an unknown setting, an unknown flag', frame(99, 255, 7), settings([99, 7]), headers(1, REQUEST, EndHeaders | 0x40), data(1, ask('answer'))],
    ['PRIORITY of any stream',                   priority(9, 0), priority(1, 9), whole],
    ['HEADERS with priority and padding',        headers(1, Buffer.concat([Buffer.of(3), u32(0), Buffer.of(1), REQUEST, Buffer.alloc(3)]), EndHeaders | Padded | Priority), data(1, ask('answer'))],
    ['DATA with padding, all of it',             open, data(1, Buffer.concat([Buffer.of(5), ask('answer'), Buffer.alloc(5)]), Padded | EndStream)],
    ['a block in three frames',                  headers(1, REQUEST.subarray(0, 9), 0), more(1, REQUEST.subarray(9, 30)), more(1, REQUEST.subarray(30), EndHeaders), data(1, ask('answer'))],
    ['END_STREAM in DATA of its own',            open, data(1, ask('answer'), 0), data(1, NONE)],
    ['END_STREAM in trailers',                   open, data(1, ask('answer'), 0), headers(1, block({ a: 'b' }), LAST)],
    ['WINDOW_UPDATE, RST_STREAM on a closed stream', headers(1, REQUEST, LAST), windowUpdate(1, 1), rst(1), headers(3, REQUEST), data(3, ask('answer'))],
    ['GOAWAY of the peer',                       frame(FrameType.Goaway, 0, 0, Buffer.alloc(8)), whole],
  ]
  for (const [what, ...frames] of good) {
    test(what, async () => {
      const { port, limiter } = await openHttp2()
      const peer = await RawPeer.hello(port)
      peer.send(...frames)
      expect(await peer.outcome(1)).toBe('answer')
      expect(await peer.settle()).toBe(true)
      expect(limiter.requests.length).toBe(1)
    })
  }

  test('a second message comes in another frame: the call is refused without calling the service', async () => {
    const { port, limiter } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.send(open, data(1, ask('answer'), 0))
    await peer.settle()
    expect(limiter.requests.length).toBe(0)
    peer.send(data(1, ask('answer')))
    expect(await peer.outcome(1)).toBe('answer')
    expect(limiter.requests.length).toBe(0)
  })

  test('DATA for a call that has been refused', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.send(headers(1, request({ ':path': '/a/b' })))
    expect(await peer.outcome(1)).toBe('answer')
    peer.send(data(1, ask('answer'), 0), data(1, NONE), windowUpdate(1, 5))
    expect(await peer.settle()).toBe(true)
    expect(
      peer.frames
        .filter(({ type }) => type === FrameType.RstStream)
        .map(({ payload }) => payload.readUInt32BE()),
    ).toEqual([0])
  })
})

describe('bytes in pieces', () => {
  const bytesSent = Buffer.concat([
    HELLO,
    open,
    data(1, ask('answer').subarray(0, 20), 0),
    data(1, ask('answer').subarray(20)),
    headers(3, REQUEST.subarray(0, 20), 0),
    more(3, REQUEST.subarray(20), EndHeaders),
    data(3, ask('over')),
    headers(5, request({ ':path': '/no/such' }), LAST),
    headers(7, REQUEST),
    data(7, message(Buffer.of(0x0a, 0x05, 0x64))),
  ])
  /** The frames of responses when the bytes arrive in pieces. */
  const respondTo = async (port: number, cuts: number[]) => {
    const peer = new RawPeer(port)
    let from = 0
    for (const cut of [...cuts, bytesSent.length]) {
      peer.send(bytesSent.subarray(from, cut))
      await new Promise((resolve) => setImmediate(resolve)) // loopback delivers each write separately
      from = cut
    }
    expect(await peer.outcome(7)).toBe('answer')
    const calls = peer.frames.filter(({ id, type }) => id > 0 && type !== FrameType.WindowUpdate)
    return calls.map(({ type, flags, id, payload }) => `${type} ${flags} ${id} ${payload.toString('hex')}`)
  }

  test('divided at any one byte, and at every byte, the responses are the same', async () => {
    const { port } = await openHttp2()
    const expected = await respondTo(port, [])
    expect(expected.length).toBe(8)
    expect(
      await respondTo(
        port,
        Array.from({ length: bytesSent.length - 1 }, (_, i) => i + 1),
      ),
    ).toEqual(expected)
    for (let cut = 1; cut < bytesSent.length; cut++) expect(await respondTo(port, [cut])).toEqual(expected)
  })

  test('divided at any places', async () => {
    const { port } = await openHttp2()
    const expected = await respondTo(port, [])
    const places = fc.uniqueArray(fc.integer({ min: 1, max: bytesSent.length - 1 }), {
      minLength: 2,
      maxLength: 20,
    })
    await fc.assert(
      fc.asyncProperty(places, async (cuts) => {
        expect(
          await respondTo(
            port,
            cuts.sort((a, b) => a - b),
          ),
        ).toEqual(expected)
      }),
    )
  })
})

test('fuzz: arbitrary bytes do not affect other connections', async () => {
  const { port } = await openHttp2()
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    fc
      .record({
        type: fc.integer({ min: 0, max: 10 }),
        flags: fc.integer({ min: 0, max: 255 }),
        id: fc.integer({ min: 0, max: 9 }),
        payload: fc.oneof(
          fc.uint8Array({ maxLength: 40 }),
          fc.constantFrom(REQUEST, ask('answer'), u32(1), u32(0)),
        ),
      })
      .map(({ type, flags, id, payload }) => frame(type, flags, id, payload)),
    fc.constantFrom(
      open,
      whole,
      waiting,
      headers(3, REQUEST),
      data(3, ask('answer')),
      headers(5, REQUEST, LAST),
    ),
  )
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(piece, { maxLength: 12 }), async (saysHello, pieces) => {
      const peer = new RawPeer(port)
      peer.send(...(saysHello ? [HELLO] : []), ...pieces)
      peer.socket.end()
      await peer.until(() => false)
    }),
    { numRuns: size({ small: 300, full: 20_000 }) },
  )
  const peer = await RawPeer.hello(port)
  peer.send(whole)
  expect(await peer.outcome(1)).toBe('answer')
})
