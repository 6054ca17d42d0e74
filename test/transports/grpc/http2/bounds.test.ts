/**
 * Each bound of bounds.ts, reached by the attack it stops; and legitimate traffic that resembles an attack.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { HANDSHAKE_MS, STREAMS_MAX, type StreamCall } from '../../../../transports/grpc/frontend.ts'
import * as bounds from '../../../../transports/grpc/http2/bounds.ts'
import { Flag, FrameType, Setting } from '../../../../transports/grpc/http2/frames.ts'
import { Http2Server } from '../../../../transports/grpc/http2/server.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { ask, openHttp2 } from './port.ts'
import { block, data, FIELDS, field, frame, headers, RawPeer, REQUEST, settings, u32 } from './raw-peer.ts'

const NONE = Buffer.alloc(0)
const CALM = 'GOAWAY 11'
const REFUSED = block({ ...FIELDS, ':path': '/no/such' })
const rst = (id: number) => frame(FrameType.RstStream, 0, id, u32(8))
const windowUpdate = (id: number, count: number) => frame(FrameType.WindowUpdate, 0, id, u32(count))
const ids = (count: number, from = 1) => Array.from({ length: count }, (_, i) => from + 2 * i)
const repeat = (count: number, bytes: Buffer) => Buffer.alloc(count * bytes.length, bytes)

/** A peer attacks; a client on another connection is served before and after. */
async function attack(...frames: Buffer[]) {
  const { port, limiter } = await openHttp2()
  const bystander = await RawPeer.hello(port)
  const peer = await RawPeer.hello(port)
  peer.send(...frames)
  const attacked = async (id: number) => {
    const outcome = await peer.outcome(id)
    bystander.send(headers(1, REQUEST), data(1, ask('answer')))
    expect(await bystander.outcome(1)).toBe('answer')
    return outcome
  }
  return { peer, attacked, limiter }
}

describe('a connection beyond a bound is closed with GOAWAY', () => {
  // biome-ignore format: the columns are the specification
  const attacks: [what: string, ...frames: Buffer[]][] = [
    ['CVE-2024-27983: CONTINUATION without an end',   headers(1, NONE, 0), repeat(bounds.CONTINUATIONS_MAX + 1, frame(FrameType.Continuation, 0, 1))],
    ['a header block of 64 KiB and more',             headers(1, Buffer.alloc(16_384), 0), repeat(4, frame(FrameType.Continuation, 0, 1, Buffer.alloc(16_384)))],
    ['CVE-2023-44487: rapid resets',                  ...ids(bounds.RAPID_RESETS.burst * 3).flatMap((id) => [headers(id, REQUEST), rst(id)])],
    ['CVE-2025-8671: resets we are made to send',     ...ids(bounds.FORCED_RESETS.burst + 10).flatMap((id) => [headers(id, REQUEST), windowUpdate(id, 0)])],
    ['RST_STREAM for what is over',                   headers(1, REQUEST), repeat(bounds.IDLE_FRAMES.burst + 1_000, rst(1))],
    ['trailers for what is over',                     headers(1, REFUSED), repeat(bounds.IDLE_FRAMES.burst + 1_000, headers(1, block({ a: 'b' }), 5))],
    ['DATA on a closed stream',                       headers(1, REQUEST), rst(1), repeat(bounds.IDLE_FRAMES.burst + 1_000, data(1, NONE))],
    ['SETTINGS flood',                                repeat(bounds.SETTINGS_FRAMES.burst + 10, settings([Setting.InitialWindowSize, 1]))],
    ['PING flood',                                    repeat(bounds.PING_STRIKES_MAX + 2, frame(FrameType.Ping, 0, 0, Buffer.alloc(8)))],
    ['empty DATA',                                    headers(1, REQUEST), repeat(bounds.IDLE_FRAMES.burst + 1_000, data(1, NONE, 0))],
    ['WINDOW_UPDATE flood',                           repeat(bounds.IDLE_FRAMES.burst + 1_000, windowUpdate(0, 1))],
    ['PRIORITY flood',                                repeat(bounds.IDLE_FRAMES.burst + 1_000, frame(FrameType.Priority, 0, 1, Buffer.alloc(5)))],
    ['frames of unknown types',                       repeat(bounds.IDLE_FRAMES.burst + 1_000, frame(99, 0, 0))],
    ['acknowledgements of nothing',                   repeat(bounds.IDLE_FRAMES.burst + 1_000, frame(FrameType.Settings, Flag.Ack, 0))],
    ['answers to pings nobody sent',                  repeat(bounds.IDLE_FRAMES.burst + 1_000, frame(FrameType.Ping, Flag.Ack, 0, Buffer.alloc(8)))],
  ]
  for (const [what, ...frames] of attacks) {
    test(what, async () => {
      const { attacked } = await attack(...frames)
      expect(await attacked(0)).toBe(CALM)
    })
  }

  test('windows of zero: queued responses are bounded', async () => {
    const calls: StreamCall[] = []
    const opened = (call: StreamCall) => {
      calls.push(call)
      return NOBODY
    }
    const stream = { path: '/a/b', open: opened }
    const { port } = await openHttp2({ streams: [stream] })
    const peer = await RawPeer.hello(port)
    peer.send(settings([Setting.InitialWindowSize, 0]))
    peer.send(...ids(20).map((id) => headers(id, block({ ...FIELDS, ':path': '/a/b' }))))
    await eventually(() => expect(calls).toHaveLength(20))
    for (const call of calls) call.send(Buffer.alloc(1_048_576))
    expect(await peer.outcome(0)).toBe(CALM)
  })
})

describe('a call beyond a bound is refused; others are served', () => {
  test(`more than ${STREAMS_MAX} streams: REFUSED_STREAM, which may be retried`, async () => {
    const { peer, attacked, limiter } = await attack(
      ...ids(STREAMS_MAX + 1).flatMap((id) => [headers(id, REQUEST), data(id, ask('wait'))]),
    )
    const last = 2 * STREAMS_MAX + 1
    expect(await attacked(last)).toBe('RST 7')
    limiter.release()
    expect(await peer.outcome(1)).toBe('answer')
    peer.send(headers(last + 2, REQUEST), data(last + 2, ask('answer')))
    expect(await peer.outcome(last + 2)).toBe('answer')
  })

  const status = async (peer: RawPeer, id: number) => {
    const found = await peer.until(
      (each) => each.id === id && each.type === FrameType.Headers && (each.flags & 1) === 1,
    )
    return /grpc-status.([0-9]+)/s.exec(found!.payload.toString('latin1'))![1]
  }

  test('HPACK bomb: a block of few bytes, a list of many', async () => {
    const big = Buffer.concat([Buffer.of(0x40), field('a', 'x'.repeat(3_000)).subarray(1)])
    const bomb = Buffer.concat([REQUEST, big, Buffer.alloc(1_000, 0xbe)])
    const { peer } = await attack(headers(1, bomb), headers(3, REQUEST), data(3, ask('answer')))
    expect(await status(peer, 1)).toBe('8')
    expect(await peer.outcome(3)).toBe('answer')
  })

  test('halves of large messages: bounded per connection, then RESOURCE_EXHAUSTED', async () => {
    const half = Buffer.concat([Buffer.of(0), u32(4 * 1024 * 1024), Buffer.alloc(16_379)])
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    const count = Math.ceil(bounds.HELD_BYTES_MAX / 32_000)
    for (const id of ids(count)) {
      peer.send(headers(id, REQUEST), data(id, half, 0), data(id, Buffer.alloc(16_384), 0))
      if (id % 40 === 1) await peer.settle() // within the connection's window
    }
    const last = 2 * count - 1
    expect(await status(peer, last)).toBe('8')
    peer.send(...ids(count).map(rst)) // gives the bytes back: in two pieces a message has to be held
    peer.send(headers(last + 4, REQUEST), data(last + 4, ask('answer').subarray(0, 9), 0))
    peer.send(data(last + 4, ask('answer').subarray(9)))
    expect(await peer.outcome(last + 4)).toBe('answer')
    expect(await status(peer, last + 4)).toBe('0')
  })

  test('many gzip bombs at once: each is RESOURCE_EXHAUSTED', async () => {
    const bomb = gzipSync(Buffer.alloc(5 * 1024 * 1024))
    const message = Buffer.concat([Buffer.of(1), u32(bomb.length), bomb])
    const fields = block({ ...FIELDS, 'grpc-encoding': 'gzip' })
    const { peer } = await attack(...ids(20).flatMap((id) => [headers(id, fields), data(id, message)]))
    for (const id of ids(20)) expect(await status(peer, id)).toBe('8')
  })
})

describe('legitimate traffic', () => {
  test('a proxy that cancels each call after 20 ms while Redis is slow keeps its connection', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    let next = 1
    for (let round = 0; round < 10; round++) {
      const called = ids(500, next)
      next += 1_000
      peer.send(...called.flatMap((id) => [headers(id, REQUEST), data(id, ask('wait'))]))
      await sleep(20)
      peer.send(...called.map(rst))
    }
    peer.send(headers(next, REQUEST), data(next, ask('answer')))
    expect(await peer.outcome(next)).toBe('answer')
  })

  test('many calls, each with a window update and now and then a ping, as libraries do', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    for (const id of ids(5_000)) {
      peer.send(
        headers(id, REQUEST),
        data(id, ask('answer')),
        windowUpdate(0, 100),
        windowUpdate(0, 1),
        windowUpdate(0, 1),
      )
      if (id % 500 === 1) {
        expect(await peer.outcome(id)).toBe('answer')
        peer.send(frame(FrameType.Ping, 0, 0, Buffer.alloc(8)))
      }
    }
    expect(await peer.outcome(9_999)).toBe('answer')
  })
})

describe('a peer that does not read', () => {
  test('is not read from beyond a bound of waiting output, and continues when it reads', async () => {
    const { port, limiter } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.socket.pause()
    const count = 60_000 // their answers are more than kernel buffers and OUTPUT_BYTES_MAX
    const frames = ids(count).flatMap((id) => [headers(id, REQUEST), data(id, ask('answer'))])
    peer.send(windowUpdate(0, 2 ** 30), ...frames)
    let before = -1
    while (before !== limiter.requests.length || before === 0) {
      before = limiter.requests.length
      await sleep(100)
    }
    expect(before).toBeLessThan(count)
    peer.socket.resume()
    expect(await peer.outcome(2 * count - 1)).toBe('answer')
    expect(limiter.requests.length).toBe(count)
  })

  test('and whose windows stay closed is closed in the end', async () => {
    const { port } = await openHttp2({ stalledMs: 100, sweepMs: 20 })
    const peer = await RawPeer.hello(port)
    peer.send(settings([Setting.InitialWindowSize, 0]), headers(1, REQUEST), data(1, ask('answer')))
    expect(await peer.outcome(1)).toBe('closed')
  })
})

test('a connection without a preface is closed after the handshake timeout', async () => {
  const { port } = await openHttp2({ handshakeMs: 300, sweepMs: 10 })
  const startMs = performance.now()
  const silent = new RawPeer(port)
  expect(await silent.until(() => false)).toBeNull() // closed
  expect(performance.now() - startMs).toBeGreaterThan(280)
})

test('times that only tests change are those of bounds.ts', () => {
  const { options } = new Http2Server({ methods: [] })
  expect(options).toMatchObject({
    handshakeMs: HANDSHAKE_MS,
    stalledMs: bounds.STALLED_MS,
    pingIdleMs: bounds.PING_IDLE_MS,
    pingTimeoutMs: bounds.PING_TIMEOUT_MS,
  })
})

test('an incomplete frame: closed', async () => {
  const { port } = await openHttp2({ stalledMs: 100, sweepMs: 20 })
  const peer = await RawPeer.hello(port)
  peer.send(headers(1, REQUEST).subarray(0, 30))
  const idle = await RawPeer.hello(port)
  await peer.until(() => false)
  expect(peer.isClosed).toBe(true)
  expect(await idle.settle()).toBe(true)
})

const NOBODY = { message() {}, halfClosed() {}, writable() {}, closed() {} }
