/**
 * Reads a body to its end or to a limit: bytes on the wire, bytes after decompression and their ratio are checked while it
 * arrives, so a decompression bomb costs at most one chunk (16 KiB) beyond the limit.
 *
 * Decodes the encodings that are requested, gzip and br, once. Any other encoding is `body_invalid`.
 */
import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createBrotliDecompress, createGunzip } from 'node:zlib'
import { Failure } from './failure.ts'

export const ACCEPT_ENCODING = 'gzip, br'

export interface BodyLimits {
  bytesMax: number // before and after decompression
  ratioMax: number
  isEmpty: boolean // a response to HEAD has no body, even with Content-Length
  signal: AbortSignal
}

export async function readBody(response: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  const { bytesMax, ratioMax, isEmpty, signal } = limits
  if (!isEmpty && Number(response.headers['content-length'] ?? 0) > bytesMax) {
    throw new Failure('too_large', 'content length')
  }
  let wireBytes = 0
  let plainBytes = 0
  const chunks: Buffer[] = []
  const decoder = isEmpty ? null : createDecoder(response.headers['content-encoding'])

  async function* counted(source: AsyncIterable<Buffer>) {
    for await (const chunk of source) {
      wireBytes += chunk.length
      if (wireBytes > bytesMax) throw new Failure('too_large', 'body')
      yield chunk
    }
  }
  async function collect(source: AsyncIterable<Buffer>) {
    for await (const chunk of source) {
      plainBytes += chunk.length
      if (plainBytes > bytesMax) throw new Failure('too_large', 'body')
      if (decoder !== null && plainBytes > wireBytes * ratioMax) throw new Failure('too_large', 'ratio')
      chunks.push(chunk)
    }
  }
  try {
    if (decoder === null) await pipeline(response, counted, collect, { signal })
    else await pipeline(response, counted, decoder, collect, { signal })
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (!(response.complete && wireBytes === 0)) throw error // an empty body is complete in every encoding
  }
  return Buffer.concat(chunks)
}

function createDecoder(header = ''): Transform | null {
  const encoding = header.trim().toLowerCase()
  if (encoding === '' || encoding === 'identity') return null
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip()
  if (encoding === 'br') return createBrotliDecompress()
  throw new Failure('body_invalid', 'encoding')
}
