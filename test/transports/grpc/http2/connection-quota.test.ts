/**
 * What a connection may use of its thread: calls in the engine, bytes held, turns of the event loop. Whatever one peer
 * does, calls on other connections are answered, and in the end all counts are zero.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { encodeRequest } from '../../../../proto/codec.ts'
import { STREAMS_MAX, type StreamCall } from '../../../../transports/grpc/frontend.ts'
import * as bounds from '../../../../transports/grpc/http2/bounds.ts'
import { Flag, FrameType, Setting } from '../../../../transports/grpc/http2/frames.ts'
import { Http2Server } from '../../../../transports/grpc/http2/server.ts'
import { listen } from '../../../../transports/grpc/listener.ts'
import { createUnaryMethods } from '../../../../transports/grpc/services.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { FakeRateLimiter } from '../../fake-rate-limiter.ts'
import { ask } from './port.ts'
import { block, data, FIELDS, frame, headers, message, RawPeer, REQUEST, settings, u32 } from './raw-peer.ts'

const MIB = 1024 * 1024
const HOUR_MS = 3_600_000
const rst = (id: number) => frame(FrameType.RstStream, 0, id, u32(8))
const windowUpdate = (id: number, count: number) => frame(FrameType.WindowUpdate, 0, id, u32(count))
const ids = (count: number, from = 1) => Array.from({ length: count }, (_, i) => from + 2 * i)
const call = (id: number, domain: string) => Buffer.concat([headers(id, REQUEST), data(id, ask(domain))])
const PUSH = { path: '/a/b', block: block({ ...FIELDS, ':path': '/a/b' }) }

async function open() {
  const limiter = new FakeRateLimiter()
  const pushes: StreamCall[] = []
  const opened = (push: StreamCall) => {
    pushes.push(push)
    return { message() {}, halfClosed() {}, writable() {}, closed() {} }
  }
  const methods = createUnaryMethods(limiter, () => {})
  const server = new Http2Server({ methods, streams: [{ path: PUSH.path, open: opened }] })
  const onSocket = server.accept.bind(server)
  const { port, stop } = await listen({ host: '127.0.0.1', port: 0, onSocket })
  onTestFinished(() => {
    stop()
    server.close()
  })
  return { limiter, pushes, server, port }
}

/** The status of a call, or how it ended otherwise. */
async function end(peer: RawPeer, id: number): Promise<string> {
  const outcome = await peer.outcome(id)
  if (outcome !== 'answer') return outcome
  const isEnd = ({ flags }: { flags: number }) => (flags & Flag.EndStream) !== 0
  const last = peer.frames.find((each) => each.id === id && each.type === FrameType.Headers && isEnd(each))
  return `status ${/grpc-status.([0-9]+)/s.exec(last!.payload.toString('latin1'))![1]}`
}

async function expectStillServed(port: number) {
  const otherPeer = await RawPeer.hello(port)
  otherPeer.send(call(1, 'answer'))
  expect(await end(otherPeer, 1)).toBe('status 0')
}

async function expectNothingLeft({ quotas }: Http2Server) {
  await eventually(() =>
    expect([quotas.heldBytes, quotas.chargedBytes, quotas.callsCount]).toEqual([0, 0, 0]),
  )
}

describe('calls abandoned by the peer', () => {
  for (const how of ['reset', 'deadline'] as const) {
    test(`${how}: bounded, then new ones are refused until some return; other connections are served`, async () => {
      const { limiter, server, port } = await open()
      const peer = await RawPeer.hello(port)
      const fields = how === 'reset' ? REQUEST : block({ ...FIELDS, 'grpc-timeout': '1H' }) // no call ends before it waits
      let next = 1
      for (let left = bounds.ABANDONED_CALLS_MAX; left > 0; left -= 500) {
        const called = ids(500, next)
        next += 1_000
        peer.send(...called.flatMap((id) => [headers(id, fields), data(id, ask('wait'))]))
        await limiter.untilWaiting(bounds.ABANDONED_CALLS_MAX - left + 500)
        await sleep(bounds.RAPID_MS + 1)
        if (how === 'reset') peer.send(...called.map(rst))
        else {
          server.deadlines.advance(performance.now() + next * HOUR_MS) // each time later: the wheel does not turn back
          expect(await end(peer, next - 2)).toBe('status 4')
        }
      }
      peer.send(call(next, 'answer'))
      expect(await end(peer, next)).toBe('status 8')
      await expectStillServed(port)
      expect(server.quotas.callsCount).toBe(bounds.ABANDONED_CALLS_MAX)
      limiter.release()
      peer.send(call(next + 2, 'answer'))
      expect(await end(peer, next + 2)).toBe('status 0')
      await expectNothingLeft(server)
    })
  }

  test('they still count when their connection has closed, until they return', async () => {
    const { limiter, server, port } = await open()
    const peer = await RawPeer.hello(port)
    peer.send(...ids(10).map((id) => call(id, 'wait')))
    await limiter.untilWaiting(10)
    peer.socket.destroy()
    await eventually(() => expect(limiter.waiting.every(({ isCancelled }) => isCancelled)).toBe(true))
    expect(server.quotas.callsCount).toBe(10)
    limiter.release()
    await expectNothingLeft(server)
  })
})

test.each(['at fault', 'cut by its peer'])(
  'calls of a connection that is %s count as garbage, once',
  async (how) => {
    const { limiter, server, port } = await open()
    const added = vi.spyOn(server.garbage, 'add')
    const peer = await RawPeer.hello(port)
    peer.send(...ids(100).map((id) => call(id, 'wait')))
    await limiter.untilWaiting(100)
    if (how === 'at fault') peer.send(data(0, Buffer.alloc(0)))
    else peer.socket.destroy()
    await eventually(() => expect(added.mock.calls.flat().filter((bytes) => bytes > 0)).toHaveLength(2)) // calls, connection
    expect(added.mock.calls.flat()).toContain(100 * 1_024)
    limiter.release()
    await expectNothingLeft(server)
  },
)

test('a call that the engine drops because it was cancelled no longer counts', async () => {
  const { limiter, server, port } = await open()
  const peer = await RawPeer.hello(port)
  peer.send(...ids(10).map((id) => call(id, 'wait')))
  await limiter.untilWaiting(10)
  peer.send(...ids(9).map(rst))
  await peer.settle()
  expect(server.quotas.callsCount).toBe(10)
  const gone = limiter.waiting.filter((caller) => caller.isCancelled)
  for (const caller of gone) caller.onError(new Error('gone'))
  expect(gone).toHaveLength(9)
  expect(server.quotas.callsCount).toBe(1)
  limiter.release()
  await expectNothingLeft(server)
})

test('calls of all connections: beyond the limit, connections with many are refused, those with few are not', async () => {
  const { limiter, server, port } = await open()
  const greedy: RawPeer[] = []
  for (let left = bounds.CALLS_ALL_MAX; left > 0; left -= STREAMS_MAX) {
    const peer = await RawPeer.hello(port)
    const count = Math.min(left, STREAMS_MAX)
    peer.send(...ids(count).map((id) => call(id, 'wait')))
    greedy.push(peer)
  }
  await limiter.untilWaiting(bounds.CALLS_ALL_MAX)
  const last = greedy.at(-1)!
  last.send(call(3_001, 'answer'))
  expect(await end(last, 3_001)).toBe('status 8')
  const modest = await RawPeer.hello(port)
  const few = bounds.CALLS_FAIR_MAX
  modest.send(...ids(few + 1).map((id) => call(id, 'wait')))
  expect(await end(modest, 2 * few + 1)).toBe('status 8')
  await limiter.untilWaiting(bounds.CALLS_ALL_MAX + few)
  limiter.release()
  expect(await end(modest, 1)).toBe('status 0')
  await expectNothingLeft(server)
})

describe('bytes held', () => {
  const half = Buffer.concat([Buffer.of(0), u32(4 * MIB), Buffer.alloc(16_379)])
  const more = Buffer.alloc(16_384)

  /** Holds slightly more than `bytes` for this peer, in halves of messages. */
  async function fill(peer: RawPeer, bytes: number) {
    for (const id of ids(Math.ceil(bytes / (2 * half.length)))) {
      peer.send(headers(id, REQUEST), data(id, half, 0), data(id, more, 0))
      if (id % 20 === 1) await peer.settle() // within the connection's window
    }
    await peer.settle()
  }

  test('of all connections: the one that holds most is closed, the others stay', async () => {
    const { server, port } = await open()
    const most = await RawPeer.hello(port)
    await fill(most, 7 * MIB)
    const others: RawPeer[] = []
    for (let bytes = 7 * MIB; bytes < bounds.HELD_BYTES_ALL_MAX + 3 * MIB; bytes += 5 * MIB) {
      others.push(await RawPeer.hello(port))
      await fill(others.at(-1)!, 5 * MIB)
    }
    expect(await most.outcome(0)).toBe('GOAWAY 11')
    for (const other of others) expect(await other.settle()).toBe(true)
    expect(server.quotas.heldBytes).toBeLessThanOrEqual(bounds.HELD_BYTES_ALL_MAX)
    await expectStillServed(port)
    for (const { socket } of [most, ...others]) socket.destroy()
    await expectNothingLeft(server)
  })

  test('incomplete header blocks and frames count', async () => {
    const { server, port } = await open()
    const count = Math.ceil(bounds.HELD_BYTES_ALL_MAX / (65_536 + 8_192)) + 10
    const most = Buffer.concat([1, 9, 9, 9].map((type) => frame(type, 0, 1, Buffer.alloc(16_384))))
    const beginning = frame(FrameType.Continuation, 0, 1, Buffer.alloc(16_384)).subarray(0, 8_192)
    const peers: RawPeer[] = []
    for (let i = 0; i < count; i++) {
      peers.push(await RawPeer.hello(port))
      peers[i].send(most, beginning)
    }
    const isClosed = () => peers.filter((peer) => peer.frames.some(({ type }) => type === FrameType.Goaway))
    await eventually(() => expect(isClosed().length).toBeGreaterThan(0))
    expect(isClosed().length).toBeLessThan(count / 4)
    expect(server.quotas.heldBytes).toBeLessThanOrEqual(bounds.HELD_BYTES_ALL_MAX)
    expect(server.quotas.heldBytes).toBeGreaterThan(bounds.HELD_BYTES_ALL_MAX * 0.9)
    await expectStillServed(port)
    for (const { socket } of peers) socket.destroy()
    await expectNothingLeft(server)
  })

  test('compressed messages are dropped with their connection, and only it closes', async () => {
    const { server, port } = await open()
    const unpacked = Buffer.concat([randomBytes(10_500), Buffer.alloc(4 * MIB - 12_400)]) // 10 ms of work for zlib
    const packed = message(gzipSync(unpacked), 1)
    const GZIP = block({ ...FIELDS, 'grpc-encoding': 'gzip' })
    const others = await Promise.all(Array.from({ length: 60 }, () => RawPeer.hello(port)))
    for (const other of others) other.send(headers(1, REQUEST), data(1, half, 0))
    const send = async (peer: RawPeer, bytes: number) => {
      for (const id of ids(Math.floor(bytes / packed.length))) {
        peer.send(headers(id, GZIP), data(id, packed))
        if (id % 100 === 1) await peer.settle()
      }
    }
    const [most, second] = [await RawPeer.hello(port), await RawPeer.hello(port)]
    await Promise.all([send(most, 7.9 * MIB), send(second, 5 * MIB)])
    for (const other of others) other.socket.write(data(1, more, 0).subarray(0, 8_000))
    expect(await most.outcome(0)).toBe('GOAWAY 11')
    await expectStillServed(port) // a round trip
    expect(others.filter(({ frames }) => frames.some(({ type }) => type === FrameType.Goaway))).toEqual([])
    expect(server.quotas.heldBytes).toBeLessThanOrEqual(bounds.HELD_BYTES_ALL_MAX)
    for (const { socket } of [most, second, ...others]) socket.destroy()
    await expectNothingLeft(server)
  })

  describe('large messages in the engine', () => {
    const large = message(encodeRequest({ domain: 'wait', descriptors: [], hitsAddend: 1 }))
    const filled = [large.subarray(5), Buffer.of(0x7a), Buffer.from([0xf0, 0x7f]), Buffer.alloc(16_368)]
    const body = message(Buffer.concat(filled).subarray(0, 16_379))
    const COUNT = Math.ceil(bounds.CHARGED_BYTES_ALL_MAX / 16_379)

    async function ask(peer: RawPeer, count: number, firstId = 1) {
      for (const id of ids(count, firstId)) {
        peer.send(headers(id, REQUEST), data(id, body))
        if (id % 40 === 1) await peer.settle()
      }
      await peer.settle()
    }

    test('count until the engine is done, cancelled or not', async () => {
      const { limiter, server, port } = await open()
      const [peer, other] = [await RawPeer.hello(port), await RawPeer.hello(port)]
      await ask(peer, 900)
      await ask(other, COUNT - 900 + 5)
      expect(await end(other, 2 * (COUNT - 900) + 5)).toBe('status 8')
      peer.send(...ids(100).map(rst))
      await ask(peer, 1, 1_801)
      expect(await end(peer, 1_801)).toBe('status 8')
      limiter.release()
      await ask(peer, 1, 1_803)
      await limiter.untilWaiting(1)
      limiter.release()
      await expectNothingLeft(server)
    })

    test('close no connection, however many there are, and leave others their share', async () => {
      const { limiter, server, port } = await open()
      const peers: RawPeer[] = []
      for (let i = 0; i < 10; i++) peers.push(await RawPeer.hello(port))
      for (const peer of peers) await ask(peer, Math.ceil(COUNT / 10) + 10)
      const late = await RawPeer.hello(port)
      await ask(late, 3)
      await limiter.untilWaiting(COUNT)
      for (const peer of peers) expect(await peer.settle()).toBe(true)
      limiter.release()
      expect(await end(late, 5)).toBe('status 0')
      await expectNothingLeft(server)
    })
  })

  test('responses that no window admits, on all connections', async () => {
    const { pushes, server, port } = await open()
    const peers: RawPeer[] = []
    const count = Math.ceil(bounds.HELD_BYTES_ALL_MAX / (7 * MIB)) + 1
    for (let i = 0; i < count; i++) {
      const peer = await RawPeer.hello(port)
      peers.push(peer)
      peer.send(settings([Setting.InitialWindowSize, 0]), ...ids(7).map((id) => headers(id, PUSH.block)))
    }
    await eventually(() => expect(pushes).toHaveLength(7 * count))
    for (const push of pushes) push.send(Buffer.alloc(MIB))
    await eventually(() => expect(server.quotas.heldBytes).toBeLessThanOrEqual(bounds.HELD_BYTES_ALL_MAX))
    expect(server.quotas.heldBytes).toBeGreaterThan(bounds.HELD_BYTES_ALL_MAX / 2) // no more are closed than necessary
    await expectStillServed(port)
    for (const { socket } of peers) socket.destroy()
    await expectNothingLeft(server)
  })

  test('output that is not read: small pieces cost little more than their bytes', async () => {
    const { server, port } = await open()
    const peer = await RawPeer.hello(port)
    peer.socket.pause()
    peer.send(windowUpdate(0, 2 ** 30))
    let next = 1
    const fill = async (heldBytes: number, callsAtOnce: number) => {
      for (; server.quotas.heldBytes <= heldBytes && next < 400_000; await turn()) {
        for (let i = 0; i < callsAtOnce; i++, next += 2) peer.socket.write(call(next, 'answer'))
      }
    }
    await fill(0, 20) // the kernel's buffers
    const before = process.memoryUsage().arrayBuffers
    await fill(bounds.OUTPUT_BYTES_MAX, 1)
    expect(server.quotas.heldBytes).toBeGreaterThan(bounds.OUTPUT_BYTES_MAX)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * MIB) // 64 KiB each would be more than 60
    peer.socket.resume()
    expect(await peer.outcome(next - 2)).toBe('answer')
    await expectNothingLeft(server)
  })
})

describe('a flood is read in pieces, with turns of the event loop between them', () => {
  for (const [peersCount, woken] of [
    [1, 0],
    [20, bounds.THROTTLED_RESUMED_MAX],
  ]) {
    test(`of ${peersCount} connections`, async () => {
      const { limiter, port } = await open()
      const frames = ids(40_000 / peersCount).map((id) => call(id, 'answer'))
      const mostBytes = bounds.TURN_BYTES + (woken + 1) * 16_384
      const most = Math.ceil(mostBytes / frames[0].length) + 1
      const peers = await Promise.all(Array.from({ length: peersCount }, () => RawPeer.hello(port)))
      for (const peer of peers) peer.send(windowUpdate(0, 2 ** 30), ...frames)
      let longTurns = 0
      for (let before = 0; limiter.requests.length < 40_000; before = limiter.requests.length) {
        await turn()
        if (limiter.requests.length - before > most) longTurns++
      }
      expect(longTurns).toBeLessThanOrEqual(woken) // the first, while none is throttled yet
    })
  }
})

test('gzip: connections take turns, so one with many messages delays only itself', async () => {
  const { server, port } = await open()
  const bomb = message(gzipSync(Buffer.alloc(4 * MIB)), 1)
  const fields = block({ ...FIELDS, 'grpc-encoding': 'gzip' })
  const greedy = await RawPeer.hello(port)
  const modest = await RawPeer.hello(port)
  greedy.send(...ids(100).flatMap((id) => [headers(id, fields), data(id, bomb)]))
  await greedy.settle()
  modest.send(headers(1, fields), data(1, message(gzipSync(ask('answer').subarray(5)), 1)))
  expect(await end(modest, 1)).toBe('status 0')
  const ended = greedy.frames.filter(({ type, id }) => type === FrameType.Headers && id > 0).length
  expect(ended).toBeLessThan(50)
  greedy.send(...ids(100).map(rst)) // queued messages are not inflated any more
  await expectNothingLeft(server)
})
