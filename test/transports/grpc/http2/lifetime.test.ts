import { queryObjects } from 'node:v8'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { STREAMS_MAX } from '../../../../transports/grpc/frontend.ts'
import { Deadline, Deadlines } from '../../../../transports/grpc/http2/deadlines.ts'
import { Flag, FrameType, Setting, STREAM_ID_MAX } from '../../../../transports/grpc/http2/frames.ts'
import { escapeMessage } from '../../../../transports/grpc/http2/output.ts'
import { parseTimeoutMs } from '../../../../transports/grpc/http2/request-head.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { standStill } from '../../../helpers/stand-still.ts'
import { ask, openHttp2 } from './port.ts'
import {
  block,
  data,
  FIELDS,
  type Frame,
  frame,
  HELLO,
  headers,
  RawPeer,
  REQUEST,
  settings,
  u32,
} from './raw-peer.ts'

const goaways = (peer: RawPeer) =>
  peer.frames.filter(({ type }) => type === FrameType.Goaway).map(({ payload }) => payload.readUInt32BE(0))
const isPing = ({ type, flags }: Frame) => type === FrameType.Ping && flags === 0
const pong = ({ payload }: Frame) => frame(FrameType.Ping, Flag.Ack, 0, payload)

describe('5.6: keepalive', () => {
  test('a silent peer is pinged, and closed without a response', async () => {
    const { port } = await openHttp2({ pingIdleMs: 50, pingTimeoutMs: 100, sweepMs: 10 })
    const peer = await RawPeer.hello(port)
    expect(await peer.until(isPing)).not.toBeNull()
    await peer.until(() => false)
    expect(peer.isClosed).toBe(true)
  })

  test('a peer that responds stays connected', async () => {
    const { port } = await openHttp2({ pingIdleMs: 50, pingTimeoutMs: 100, sweepMs: 10 })
    const peer = await RawPeer.hello(port)
    for (let i = 0; i < 5; i++) {
      const asked = await peer.until(isPing)
      expect(asked).not.toBeNull()
      peer.frames.length = 0
      peer.send(pong(asked!))
    }
    expect(await peer.settle()).toBe(true)
  })

  test('a peer whose response waits in the socket while this thread pauses stays connected', async () => {
    const { port } = await openHttp2({ pingIdleMs: 50, pingTimeoutMs: 100, sweepMs: 10 })
    const peer = await RawPeer.hello(port)
    for (let i = 0; i < 5; i++) {
      const asked = await peer.until(isPing)
      expect(asked).not.toBeNull()
      peer.frames.length = 0
      peer.send(pong(asked!))
      standStill(200)
    }
    expect(await peer.settle()).toBe(true)
  })

  test('a ping after a response is free, others are strikes', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    const ping = frame(FrameType.Ping, 0, 0, Buffer.alloc(8))
    for (const id of [1, 3, 5, 7, 9, 11]) {
      peer.send(headers(id, REQUEST), data(id, ask('answer')), ping)
      expect(await peer.outcome(id)).toBe('answer')
    }
    peer.send(ping, ping, ping)
    expect(await peer.outcome(0)).toBe('GOAWAY 11')
    expect(peer.frames.at(-1)!.payload.subarray(8).toString()).toBe('too_many_pings')
  })
})

describe('5.6: a drain', () => {
  test('sends GOAWAY twice: calls that cross the first one are served, the second names the last call', async () => {
    const { port, frontend, limiter } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.send(headers(1, REQUEST), data(1, ask('wait')))
    await limiter.untilWaiting(1)
    const drained = frontend.drain(10_000)
    const asked = await peer.until(isPing)
    expect(goaways(peer)).toEqual([STREAM_ID_MAX])
    peer.send(headers(3, REQUEST), data(3, ask('answer')), pong(asked!))
    peer.send(headers(5, REQUEST), data(5, ask('answer'))) // too late
    await peer.until(({ type, payload }) => type === FrameType.Goaway && payload.readUInt32BE(0) === 3)
    limiter.release()
    await peer.until(() => false)
    await drained
    expect(goaways(peer)).toEqual([STREAM_ID_MAX, 3])
    expect([...new Set(peer.frames.map(({ id }) => id))].sort()).toEqual([0, 1, 3])
  })

  test('does not wait for a peer that does not acknowledge the ping', async () => {
    const { port, frontend } = await openHttp2()
    const peer = await RawPeer.hello(port)
    await frontend.drain(10_000)
    await peer.until(() => false)
    expect(goaways(peer)).toEqual([STREAM_ID_MAX, 0])
  })
})

test('5.6: a connection with a late preface is not closed for its age: its first call is answered', async () => {
  const { port } = await openHttp2({ connectionAgeMs: 20 })
  const late = new RawPeer(port)
  await late.until(({ type }) => type === FrameType.Settings) // accepted
  for (let i = 0; i < 2; i++) {
    const other = await RawPeer.hello(port)
    await other.until(({ type }) => type === FrameType.Goaway) // accepted later, and old by now
  }
  late.send(HELLO, headers(1, REQUEST), data(1, ask('answer')))
  expect(await late.outcome(1)).toBe('answer')
})

describe('windows', () => {
  test('a response is split to fit the windows, and continues as they open, that of the connection included', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.send(settings([Setting.InitialWindowSize, 3]), headers(1, REQUEST), data(1, ask('answer')))
    const sizes = () =>
      peer.frames.filter(({ type }) => type === FrameType.Data).map(({ payload }) => payload.length)
    await peer.settle()
    expect(sizes()).toEqual([3])
    peer.send(frame(FrameType.WindowUpdate, 0, 1, u32(2)))
    await peer.settle()
    expect(sizes()).toEqual([3, 2])
    peer.send(settings([Setting.InitialWindowSize, 1])) // now it is negative
    peer.send(frame(FrameType.WindowUpdate, 0, 1, u32(2)))
    await peer.settle()
    expect(sizes()).toEqual([3, 2])
    peer.send(frame(FrameType.WindowUpdate, 0, 1, u32(1_000)))
    expect(await peer.outcome(1)).toBe('answer')
  })

  test('streams that wait for the connection are all served when it opens', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    const count = 4_000 // answers of 25 bytes and more fill 65,535
    for (let i = 0; i < count; i++) peer.send(headers(2 * i + 1, REQUEST), data(2 * i + 1, ask('answer')))
    await peer.settle()
    const sent = () =>
      peer.frames.reduce((sum, { type, payload }) => sum + (type === FrameType.Data ? payload.length : 0), 0)
    expect(sent()).toBe(65_535)
    const isEnd = ({ type, flags }: Frame) => type === FrameType.Headers && (flags & Flag.EndStream) !== 0
    const endedCount = peer.frames.filter(isEnd).length
    peer.send(frame(FrameType.WindowUpdate, 0, 0, u32(10_000_000)))
    const ends: string[] = []
    for (let i = 0; i < count; i++) ends.push(await peer.outcome(2 * i + 1))
    const refusedFrom = ends.indexOf('RST 7')
    expect(refusedFrom).toBe(endedCount + STREAMS_MAX) // STREAMS_MAX streams waited, the others were refused
    expect(ends.slice(0, refusedFrom).every((end) => end === 'answer')).toBe(true)
    expect(ends.slice(refusedFrom).every((end) => end === 'RST 7')).toBe(true)
  })

  test('a peer that changes its header table size is sent a table size of 0', async () => {
    const { port } = await openHttp2()
    const peer = await RawPeer.hello(port)
    peer.send(settings([Setting.HeaderTableSize, 0]))
    for (const id of [1, 3]) peer.send(headers(id, REQUEST), data(id, ask('answer')))
    await peer.outcome(3)
    const blocks = peer.frames
      .filter(({ type }) => type === FrameType.Headers)
      .map(({ payload }) => payload[0])
    expect(blocks).toEqual([0x20, 0, 0x88, 0])
  })
})

describe('requests that are not gRPC', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // changed                                 status  body
    [{ ':method': 'GET' },                       405, 'gRPC calls are POST requests.\n'],
    [{ 'content-type': 'application/json' },     415, 'This port speaks gRPC: send content-type application/grpc.\n'],
    [{ 'content-type': 'application/grpcweb' },  415, 'This port speaks gRPC: send content-type application/grpc.\n'],
  ] as const
  for (const [changed, code, text] of cases) {
    test(`${JSON.stringify(changed)}: ${code} and a text`, async () => {
      const { port } = await openHttp2()
      const peer = await RawPeer.hello(port)
      peer.send(headers(1, block({ ...FIELDS, ...changed }), Flag.EndHeaders | Flag.EndStream))
      await peer.until(({ type, flags }) => type === FrameType.Data && flags === Flag.EndStream)
      const body = peer.frames.filter(({ type }) => type === FrameType.Data).map(({ payload }) => payload)
      expect(Buffer.concat(body).toString()).toBe(text)
      expect(peer.frames.find(({ type }) => type === FrameType.Headers)!.payload.toString()).toContain(
        `:status\x03${code}`,
      )
    })
  }
})

test('HEAD: 405 and no body', async () => {
  const { port } = await openHttp2()
  const peer = await RawPeer.hello(port)
  peer.send(headers(1, block({ ...FIELDS, ':method': 'HEAD' }), Flag.EndHeaders | Flag.EndStream))
  const answer = await peer.until(({ type }) => type === FrameType.Headers)
  expect(answer!.flags).toBe(Flag.EndHeaders | Flag.EndStream)
  expect(answer!.payload.toString()).toContain(':status\x03405')
})

test('a grpc-timeout of less than a millisecond has passed: no decision is made', async () => {
  const { port, limiter } = await openHttp2()
  const peer = await RawPeer.hello(port)
  for (const [i, timeout] of ['0S', '0m', '1u', '999n'].entries()) {
    const id = 2 * i + 1
    peer.send(headers(id, block({ ...FIELDS, 'grpc-timeout': timeout }), Flag.EndHeaders | Flag.EndStream))
    const answer = await peer.until(({ type, id: ofId }) => type === FrameType.Headers && ofId === id)
    expect(answer!.payload.toString()).toContain('Deadline%20exceeded')
  }
  expect(limiter.requests).toEqual([])
})

describe('grpc-timeout', () => {
  // biome-ignore format: the columns are the specification
  const cases: [string, number][] = [
    ['1H', 3_600_000], ['2M', 120_000], ['3S', 3_000], ['20m', 20], ['5u', 0.005], ['7n', 0.000007], ['99999999H', 99_999_999 * 3_600_000],
    ['', NaN], ['1', NaN], ['m', NaN], ['-1S', NaN], ['1.5S', NaN], ['123456789S', NaN], ['1s', NaN], [' 1S', NaN],
  ]
  for (const [text, ms] of cases)
    test(`'${text}' is ${ms} ms`, () => expect(parseTimeoutMs(text)).toEqual(ms))
})

test('a status message is truncated at its bound, never within an escape', () => {
  for (const letter of ['a', 'é', '€', '\u{1f600}', '%']) {
    const escaped = escapeMessage(letter.repeat(9_000))
    expect(escaped.length).toBeLessThanOrEqual(8_192)
    expect(escaped).toMatch(/^(?:[^%]|%[0-9A-F]{2})*$/)
  }
})

test('deadlines: each fires once, when it has passed, unless it was removed', () => {
  class Probe extends Deadline {
    firedMs: number[] = []
    override onDeadline(): void {
      this.firedMs.push(now)
    }
  }
  let now = 0
  const plan = fc.array(fc.record({ at: fc.integer({ min: 0, max: 8_000 }), takenOut: fc.boolean() }), {
    maxLength: 30,
  })
  fc.assert(
    fc.property(plan, fc.integer({ min: 1, max: 70 }), (entries, stepMs) => {
      const startMs = 1_700_000_000_000
      const wheel = new Deadlines()
      const probes = entries.map(({ at }) => Object.assign(new Probe(), { deadlineMs: startMs + at }))
      for (const probe of probes) wheel.add(probe, startMs)
      for (const [i, { takenOut }] of entries.entries()) if (takenOut) wheel.remove(probes[i])
      for (now = startMs; now <= startMs + 8_100; now += stepMs) wheel.advance(now)
      wheel.close()
      entries.forEach(({ at, takenOut }, i) => {
        const { firedMs } = probes[i]
        expect(firedMs.length).toBe(takenOut ? 0 : 1)
        if (takenOut) return
        expect(firedMs[0]).toBeGreaterThanOrEqual(startMs + at)
        expect(firedMs[0]).toBeLessThanOrEqual(startMs + at + stepMs + 20)
      })
    }),
  )
})

test('a closed connection leaves no timers and no timer lists of Node', async () => {
  // Node has a list per duration, and keeps unref'd timers in it until they would have fired
  const timer = setTimeout(() => {}, 1_234_567) as NodeJS.Timeout & { _idlePrev: object }
  const List = timer._idlePrev.constructor as new () => object
  expect(List.name).toBe('TimersList')
  clearTimeout(timer)
  const lists = () => Number(queryObjects(List, { format: 'count' }))
  const { port } = await openHttp2({ connectionAgeMs: 86_400_000 })
  const before = lists()
  for (let i = 0; i < 50; i++) {
    const peer = await RawPeer.hello(port)
    peer.socket.destroy()
  }
  await eventually(() => expect(lists() - before).toBeLessThan(10))
})
