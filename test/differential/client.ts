/**
 * Sends one request to one service, over gRPC or as JSON. Returns everything of the response that a client sees.
 */

import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Client, credentials, type ServiceError } from '@grpc/grpc-js'
import { decodeResponse, encodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import type { Side } from './reference.ts'

/** `text` null = over gRPC. `request` is the meaning of the text, for a malformed text before its mutation. */
export interface SentRequest {
  request: RateLimitRequest
  text: string | Uint8Array | null
}

/** Flat, and printable. */
export interface ReceivedResponse {
  status: string // `grpc 0`, `http 429`
  headers: string // content type and the like
  body: unknown // error message, or the response as read by the codec or JSON.parse
  raw: string // its bytes in hex, or its text without the spaces Go may put after commas
}

const RESPONSE_MS_MAX = 20_000

/** A connection for gRPC and one for HTTP. */
export class ServiceClient {
  private readonly side: Side
  private readonly client: Client
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 1 })

  constructor(side: Side) {
    this.side = side
    this.client = new Client(side.grpc, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 })
  }

  send({ request, text }: SentRequest): Promise<ReceivedResponse> {
    return text === null
      ? this.callGrpc(SHOULD_RATE_LIMIT, Buffer.from(encodeRequest(request)))
      : this.postJson(text)
  }

  close(): void {
    this.client.close()
    this.agent.destroy()
  }

  callGrpc(method: string, bytes: Buffer): Promise<ReceivedResponse> {
    return new Promise((resolve) => {
      const done = (error: ServiceError | null, reply?: Buffer) => {
        if (error) resolve({ status: `grpc ${error.code}`, headers: '', body: error.details, raw: '' })
        else
          resolve({
            status: 'grpc 0',
            headers: '',
            body: decodeResponse(reply!),
            raw: reply!.toString('hex'),
          })
      }
      const deadline = Date.now() + RESPONSE_MS_MAX
      this.client.makeUnaryRequest(method, same, same, bytes, { deadline }, done)
    })
  }

  private postJson(text: string | Uint8Array): Promise<ReceivedResponse> {
    return this.sendHttp('POST', '/json', text)
  }

  sendHttp(method: string, path: string, body: string | Uint8Array): Promise<ReceivedResponse> {
    return new Promise((resolve) => {
      const failed = (error: Error) =>
        resolve({ status: 'http cut', headers: '', body: error.message, raw: '' })
      const headers = { 'content-length': Buffer.byteLength(body) } // Node leaves it out for GET
      const options = { method, headers, agent: this.agent, timeout: RESPONSE_MS_MAX }
      const call = httpRequest(this.side.http + path, options)
      call.on('response', (response) =>
        readAll(response).then((read) => resolve(toReceivedResponse(response, read)), failed),
      )
      call.on('timeout', () => call.destroy(new Error(`no response in ${RESPONSE_MS_MAX} ms`)))
      call.on('error', failed)
      call.end(body)
    })
  }
}

async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

const SHOWN_HEADERS = ['content-type', 'x-content-type-options', 'location']

function toReceivedResponse({ statusCode, headers }: IncomingMessage, text: string): ReceivedResponse {
  const shown = SHOWN_HEADERS.flatMap((name) => (headers[name] ? [`${name}: ${headers[name]}`] : []))
  const common = { status: `http ${statusCode}`, headers: shown.join('\n') }
  if (headers['content-type'] !== 'application/json') return { ...common, body: text, raw: text }
  const body: unknown = JSON.parse(text)
  return { ...common, body, raw: JSON.stringify(body) } // keeps the order of the fields
}

function same(bytes: Buffer): Buffer {
  return bytes
}
