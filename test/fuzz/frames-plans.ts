/** The calls a FuzzPeer makes, valid and invalid, with the expected response of each. */
import { gzipSync } from 'node:zlib'
import { Status } from '../../transports/grpc/status.ts'
import { message, u32 } from '../transports/grpc/http2/frame-bytes.ts'
import type { Fields } from './frames-blocks.ts'
import { FuzzCall } from './frames-call.ts'
import { getResponse, STREAM_PATH, UNARY_PATH } from './frames-services.ts'

type Random = () => number

const NONE: Buffer = Buffer.alloc(0)

function randomBytes(random: Random): Buffer {
  const chance = random()
  const length = chance < 0.8 ? random() * 120 : chance < 0.99 ? random() * 3_000 : random() * 60_000
  const bytes = Buffer.alloc(Math.floor(length), Math.floor(random() * 256))
  if (bytes.length > 4) bytes.writeUInt32BE(Math.floor(random() * 2 ** 32), 1)
  if (bytes.length > 0) bytes[0] = Math.floor(random() * 256)
  return bytes
}

export function makeCall(id: number, random: Random): FuzzCall {
  const chance = random()
  const bytesSent = randomBytes(random)
  const whole = message(bytesSent)
  const call = (path: string, body: Buffer, statuses: number[], bytes = NONE, more: Fields = []) =>
    new FuzzCall({
      id,
      fields: randomFields(path, random, more),
      body,
      statuses,
      bytes,
      hasTrailers: random() < 0.1,
    })
  const { status, bytes } = getResponse(bytesSent)
  const framed: Buffer = status === Status.Ok ? message(bytes) : NONE
  if (chance < 0.7) return call(UNARY_PATH, whole, [status], framed)
  if (chance < 0.8) {
    const sent = Array.from({ length: Math.floor(random() * 5) }, () => randomBytes(random))
    const responses = sent.map((each) => message(getResponse(each).bytes))
    return call(
      STREAM_PATH,
      Buffer.concat(sent.map((each) => message(each))),
      [Status.Ok],
      Buffer.concat(responses),
    )
  }
  if (chance < 0.81) return plainCall(id, whole)
  if (chance < 0.83) return call('/fuzz.Service/None', whole, [Status.Unimplemented])
  if (chance < 0.86) return call(UNARY_PATH, Buffer.concat([whole, whole]), [Status.Unimplemented])
  if (chance < 0.88) return call(UNARY_PATH, NONE, [Status.Unimplemented])
  if (chance < 0.9) return call(UNARY_PATH, whole.subarray(0, Math.min(3, whole.length)), [Status.Internal])
  if (chance < 0.92)
    return call(UNARY_PATH, Buffer.concat([Buffer.of(0), u32(2 ** 31), bytesSent, bytesSent, u32(0)]), [
      Status.ResourceExhausted,
    ])
  if (chance < 0.94)
    return call(UNARY_PATH, message(gzipSync(bytesSent), 1), [status], framed, [['grpc-encoding', 'gzip']])
  if (chance < 0.95)
    return call(UNARY_PATH, message(Buffer.alloc(20), 1), [Status.Internal], NONE, [
      ['grpc-encoding', 'gzip'],
    ])
  if (chance < 0.96) return call(UNARY_PATH, whole, [Status.Unimplemented], NONE, [['grpc-encoding', 'zstd']])
  if (chance < 0.97) return call(UNARY_PATH, whole, [Status.Internal], NONE, [['grpc-timeout', 'soon']])
  if (chance < 0.98)
    return call(UNARY_PATH, whole, [status, Status.DeadlineExceeded], framed, [['grpc-timeout', '3m']])
  return call(UNARY_PATH, whole, [status], framed, [['content-length', String(whole.length)]])
}

/** Not gRPC: the response is an HTTP status and a text. */
function plainCall(id: number, body: Buffer): FuzzCall {
  const fields: Fields = [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', UNARY_PATH],
    ['content-type', 'text/plain'],
  ]
  return new FuzzCall({ id, fields, body, hasTrailers: false, statuses: [], bytes: NONE })
}

const PROBE_MESSAGE = Buffer.of(0, 1, 2, 3)
/** Does not depend on earlier frames, and does not change the table. */
export const PROBE = {
  fields: [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', UNARY_PATH],
    ['content-type', 'application/grpc'],
  ] as Fields,
  body: message(PROBE_MESSAGE),
  hasTrailers: false,
  statuses: [Status.Ok],
  bytes: message(getResponse(PROBE_MESSAGE).bytes),
}

function randomFields(path: string, random: Random, more: Fields): Fields {
  const trace: Fields =
    random() < 0.3 ? [['traceparent', `00-${Math.floor(random() * 2 ** 40).toString(16)}-01`]] : []
  const long: Fields = random() < 0.05 ? [['x-long', 'y'.repeat(Math.floor(random() * 6_000))]] : []
  const type = random() < 0.9 ? 'application/grpc' : 'application/grpc+proto'
  return [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    [':authority', `host-${Math.floor(random() * 3)}`],
    ['content-type', type],
    ['te', 'trailers'],
    ...trace,
    ...long,
    ...more,
  ]
}
