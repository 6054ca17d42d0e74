/**
 * A gRPC client of the load, on one connection of node:http2: a third of the cost of @grpc/grpc-js, and no deadline of its own, so that
 * what the service does at a deadline shows. A lost connection is opened again; its calls have no answer.
 */
import { type ClientHttp2Session, connect } from 'node:http2'
import { DEGRADED_HEADER } from '../../engine/decision/response-metadata.ts'
import { decodeResponse, encodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import type { Answer } from './answer.ts'

const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const PREFIX_BYTES = 5 // of a gRPC message: compression flag and length
const RECONNECT_MS = 50
const ANSWER_BYTES_MAX = 1_048_576

export class LoadClient {
  lostCount = 0 // connections, while not closed
  private readonly url: string
  private session: ClientHttp2Session | null = null
  private isClosed = false

  /** `address`: host:port. */
  constructor(address: string) {
    this.url = `http://${address}`
  }

  /** Resolves when connected. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      const session = connect(this.url)
      this.session = session
      let isOpen = false
      session.once('connect', () => {
        isOpen = true
        resolve()
      })
      session.on('error', (error) => reject(error)) // without effect once open
      session.once('close', () => {
        if (this.session === session) this.session = null
        if (!isOpen || this.isClosed) return
        this.lostCount++
        this.reopen()
      })
    })
  }

  private reopen(): void {
    setTimeout(() => {
      if (!this.isClosed) this.open().catch(() => this.reopen())
    }, RECONNECT_MS)
  }

  /** `done` is called once. `timeoutMs` becomes grpc-timeout; the client waits longer. */
  ask(request: RateLimitRequest, timeoutMs: number | undefined, done: (answer: Answer) => void): void {
    if (this.session === null || this.session.closed) {
      queueMicrotask(() => done({ kind: 'unanswered', reason: 'no connection' }))
      return
    }
    const headers: Record<string, string> = {
      ':method': 'POST',
      ':path': PATH,
      te: 'trailers',
      'content-type': 'application/grpc',
    }
    if (timeoutMs !== undefined) headers['grpc-timeout'] = `${timeoutMs}m`
    const stream = this.session.request(headers)
    const chunks: Buffer[] = []
    let bytes = 0
    let status = -1
    let message = ''
    let reason = 'the connection was lost'
    const readStatus = (fields: { 'grpc-status'?: unknown; 'grpc-message'?: unknown }) => {
      if (fields['grpc-status'] === undefined) return
      status = Number(fields['grpc-status'])
      message = String(fields['grpc-message'] ?? '')
    }
    stream.on('response', readStatus)
    stream.on('trailers', readStatus)
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= ANSWER_BYTES_MAX) chunks.push(chunk)
    })
    stream.on('error', (error) => {
      reason = error.message
    })
    stream.on('close', () => {
      if (status === -1) done({ kind: 'unanswered', reason })
      else if (status !== 0) done({ kind: 'failed', reason: `${status} ${message}` })
      else done(readAnswer(Buffer.concat(chunks)))
    })
    stream.end(frame(request))
  }

  close(): void {
    this.isClosed = true
    this.session?.destroy()
  }
}

function frame(request: RateLimitRequest): Buffer {
  const message = encodeRequest(request)
  const bytes = Buffer.alloc(PREFIX_BYTES + message.length)
  bytes.writeUInt32BE(message.length, 1)
  bytes.set(message, PREFIX_BYTES)
  return bytes
}

function readAnswer(bytes: Buffer): Answer {
  let response: RateLimitResponse
  try {
    response = decodeResponse(bytes.subarray(PREFIX_BYTES))
  } catch (error) {
    return { kind: 'unanswered', reason: `not a response: ${(error as Error).message}` }
  }
  const { overallCode, statuses, responseHeadersToAdd, dynamicMetadata } = response
  const degraded = responseHeadersToAdd.find(({ key }) => key === DEGRADED_HEADER)?.value ?? ''
  const descriptors = dynamicMetadata?.descriptors as { degraded?: string }[] | undefined
  const policies = descriptors?.map((each) => each.degraded ?? null) ?? null
  return { kind: 'answered', overallCode, statuses, degraded, policies }
}
