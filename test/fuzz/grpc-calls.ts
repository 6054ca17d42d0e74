/**
 * Unary gRPC calls over node:http2 with raw bytes: a third of the cost of a client library, which matters for a fuzz test
 * of a million calls. No retries, deadlines or compression.
 */
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from 'node:http2'

export interface CallEnd {
  code: number // NaN = the call ended without a status
  details: string
  response: Buffer // empty without one
}

const PREFIX_BYTES = 5 // compressed or not, length

export function openSession(address: string): ClientHttp2Session {
  const session = connect(`http://${address}`)
  session.on('error', () => {}) // its streams fail with the same error
  return session
}

export function call(session: ClientHttp2Session, path: string, message: Uint8Array): Promise<CallEnd> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    let lastHeaders: IncomingHttpHeaders = {}
    const chunks: Buffer[] = []
    stream.on('response', (headers) => {
      lastHeaders = headers // the only ones if the call fails at once
    })
    stream.on('trailers', (headers) => {
      lastHeaders = headers
    })
    stream.on('data', (chunk) => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('close', () => {
      const response = Buffer.concat(chunks).subarray(PREFIX_BYTES)
      const details = decodeURIComponent(String(lastHeaders['grpc-message'] ?? ''))
      resolve({ code: Number(lastHeaders['grpc-status']), details, response })
    })
    stream.end(framed(message))
  })
}

function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.alloc(PREFIX_BYTES + message.length)
  bytes.writeUInt32BE(message.length, 1)
  bytes.set(message, PREFIX_BYTES)
  return bytes
}
