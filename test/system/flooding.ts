/**
 * A program that attacks the gRPC port of a service from many connections; test/helpers/flood.ts starts it and sends it
 * messages. A connection that is cut is replaced at once.
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
const IDS_MAX = 2 ** 30 // beyond this, the connection is idle
const REPEATS = 200 // frames per write

const descriptor = (value: string) => ({ entries: [{ key: 'user', value }], limit: null, hitsAddend: null })
const SMALL = message(encodeRequest({ domain: 'flood', descriptors: [descriptor('x')], hitsAddend: 1 }))
const many = Array.from({ length: 600 }, (_, i) => descriptor(`${i}`))
const LARGE = message(encodeRequest({ domain: 'flood', descriptors: many, hitsAddend: 1 }))
const HALF = Buffer.concat([Buffer.of(0), u32(4 * 1024 * 1024), Buffer.alloc(16_379)])
const BOMB = message(gzipSync(Buffer.alloc(5 * 1024 * 1024)), 1)
const LYING_BOMB = Buffer.concat([BOMB.subarray(0, -4), Buffer.of(100, 0, 0, 0)]) // it claims 100 bytes
const DAMAGED = message(gzipSync(Buffer.alloc(4 * 1024 * 1024)), 1)
DAMAGED.writeUInt32LE(1, DAMAGED.length - 8) // the checksum
const GZIP = block({ ...FIELDS, 'grpc-encoding': 'gzip' })
const UNKNOWN_PATH = block({ ...FIELDS, ':path': '/no/such' })
const LONG = Buffer.concat([Buffer.of(0x40), field('a', 'x'.repeat(3_000)).subarray(1)])
const HPACK_BOMB = Buffer.concat([REQUEST, LONG, Buffer.alloc(12_000, 0xbe)])

const rst = (id: number) => frame(FrameType.RstStream, 0, id, u32(8))
const windowUpdate = (id: number, count: number) => frame(FrameType.WindowUpdate, 0, id, u32(count))
const open = (id: number) => headers(id, REQUEST)
const call = (id: number, bytes = SMALL) => Buffer.concat([open(id), data(id, bytes)])
const repeat = (bytes: Buffer) => Buffer.alloc(bytes.length * REPEATS, bytes)

interface Flood {
  isSilent?: boolean // does not even send HELLO
  first?: Buffer // sent after HELLO
  each?: (id: number) => Buffer // sent again and again, with growing stream ids
  always?: Buffer // sent again and again, unchanged
  callsMax?: number // of `each`; then the connection stays open
  readsNothing?: boolean
  closesAtOnce?: boolean // after `first`
}

export const FLOODS: Record<string, Flood> = {
  calls: { first: windowUpdate(0, 2 ** 30), each: (id) => call(id) },
  'responses without a window': { each: (id) => call(id) },
  'rapid resets': { each: (id) => Buffer.concat([call(id), rst(id)]) },
  'resets by the server': { each: (id) => Buffer.concat([open(id), windowUpdate(id, 0)]) },
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
  'distinct header blocks': {
    each: (id) =>
      headers(id, block({ ...FIELDS, 'content-type': `application/grpc+${id}${'x'.repeat(9_000)}` })),
    callsMax: STREAMS,
  },
  'windows of zero': {
    first: settings([Setting.InitialWindowSize, 0]),
    each: (id) => call(id, LARGE),
    callsMax: STREAMS,
  },
  'unread responses': { first: windowUpdate(0, 2 ** 30), each: (id) => call(id, LARGE), readsNothing: true },
  'gzip bombs': { each: (id) => Buffer.concat([headers(id, GZIP), data(id, BOMB)]), callsMax: STREAMS },
  'gzip bombs with a false size': {
    each: (id) => Buffer.concat([headers(id, GZIP), data(id, LYING_BOMB)]),
    callsMax: STREAMS,
  },
  'damaged gzip': { each: (id) => Buffer.concat([headers(id, GZIP), data(id, DAMAGED)]), callsMax: STREAMS },
  'refused calls': { each: (id) => headers(id, UNKNOWN_PATH, EndHeaders | Flag.EndStream) },
  connections: { closesAtOnce: true },
  'silent connections': { isSilent: true },
  'idle connections': {},
}

/** Messages of the test to this program; the program sends FloodStats every STATS_MS. */
export type FloodCommand = { kind: string; port: number; connections: number } | 'stop'

/** Since the latest flood began. */
export interface FloodStats {
  isRunning: boolean
  bytes: number // written
  attempts: number // connections begun
  connects: number // connections made
}

interface Calls {
  bytes: Buffer
  count: number
}

const STATS_MS = 20
const WRITE_BYTES = 32_768
const KNOWN_CALLS_MAX = 500
const callsByFirstId = new Map<number, Calls>() // of the running flood
const IDLE: FloodStats = { isRunning: false, bytes: 0, attempts: 0, connects: 0 }
const sockets = new Set<Socket>()
let stats = IDLE

function attack(flood: Flood, port: number): void {
  const own = stats // a new flood has new ones
  if (!own.isRunning) return
  own.attempts++
  const socket = connect(port, '127.0.0.1')
  let id = -1
  let calls = 0
  let isFirst = !flood.isSilent
  const write = () => {
    while (own.isRunning && !socket.destroyed) {
      const bytes = next()
      if (bytes === null) return
      own.bytes += bytes.length
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
    const { bytes, count } = getCalls(flood.each, id + 2, (flood.callsMax ?? IDS_MAX) - calls)
    id += 2 * count
    calls += count
    return bytes
  }
  socket.on('connect', () => {
    own.connects++
    write()
    if (flood.closesAtOnce) socket.end()
  })
  socket.on('drain', () => setImmediate(write)) // written at once, `drain` comes before any message of the test is read
  socket.on('error', () => {})
  socket.on('close', () => {
    sockets.delete(socket)
    if (own.isRunning) setImmediate(attack, flood, port)
  })
  if (flood.readsNothing) socket.pause()
  else socket.resume()
  sockets.add(socket)
}

/** About WRITE_BYTES of calls. All connections send the same ones, so they are made once. */
function getCalls(each: (id: number) => Buffer, firstId: number, countMax: number): Calls {
  const known = callsByFirstId.get(firstId)
  if (known && known.count <= countMax) return known
  const parts: Buffer[] = []
  for (let bytes = 0; bytes < WRITE_BYTES && parts.length < countMax; bytes += parts.at(-1)!.length)
    parts.push(each(firstId + 2 * parts.length))
  const calls = { bytes: Buffer.concat(parts), count: parts.length }
  if (callsByFirstId.size < KNOWN_CALLS_MAX) callsByFirstId.set(firstId, calls)
  return calls
}

function onCommand(command: FloodCommand): void {
  if (command === 'stop') {
    stats.isRunning = false
    for (const socket of sockets) socket.destroy()
    process.send!(stats)
    return
  }
  stats = { ...IDLE, isRunning: true }
  callsByFirstId.clear()
  for (let i = 0; i < command.connections; i++) attack(FLOODS[command.kind], command.port)
}

if (process.argv[1] === import.meta.filename) {
  process.on('message', onCommand)
  process.once('disconnect', () => process.exit())
  setInterval(() => {
    if (stats.isRunning) process.send!(stats)
  }, STATS_MS)
}
