/**
 * One connection to the management server with the one stream on it (spec 8.6), by @grpc/grpc-js.
 *
 *     open ──► connecting ──► connected ──► requests out, responses in ──► lost
 *                  └── refused, or nothing for CONNECT_MS_MAX ──────────────┘
 *
 * Responses are pulled, one at a time. While one is in work, 16 more wait here in order of arrival (as many objects as a
 * stream of Node's reads ahead), then HTTP/2's flow control holds the server. Never used again after it was lost.
 */
import { Client, type ClientDuplexStream, type ServiceError, status } from '@grpc/grpc-js'
import { type DiscoveryRequest, encodeDiscoveryRequest, responseHead } from '../../proto/discovery.ts'
import type { Endpoint } from './endpoint.ts'
import { TrackedCredentials } from './tracked-credentials.ts'

const METHOD = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const CONNECT_MS_MAX = 20_000 // for names, TCP and TLS together; the library itself would wait for ever

export interface Response {
  version: string
  nonce: string
  bytes: Uint8Array<ArrayBuffer> // all of it; memory of its own, so it can go to another thread
}

/** A response has come, and is too large or none at all. */
export class UnusableResponse extends Error {}

export interface StreamOptions {
  endpoint: Endpoint
  onConnect: () => void
  connectMsMax?: number // for tests
}

export class XdsStream {
  isConnected = false // has been
  private readonly credentials: TrackedCredentials
  private readonly client: Client
  private readonly call: ClientDuplexStream<DiscoveryRequest, Response>
  private readonly timer: NodeJS.Timeout
  private isTooLate = false

  /** Throws for a target that is none. */
  constructor({ endpoint, onConnect, connectMsMax = CONNECT_MS_MAX }: StreamOptions) {
    const { target, options, headers } = endpoint
    this.credentials = new TrackedCredentials(endpoint.layers())
    this.client = new Client(target, this.credentials, options)
    this.call = this.client.makeBidiStreamRequest(METHOD, toBuffer, toResponse, headers.clone())
    this.call.on('error', () => {}) // `responses` tells the first one; there may be another when it is closed
    this.timer = setTimeout(() => {
      this.isTooLate = true
      this.call.cancel()
    }, connectMsMax)
    this.client.waitForReady(Number.POSITIVE_INFINITY, (error) => {
      if (error) return // closed meanwhile
      clearTimeout(this.timer) // ours, since the library's would stay when the client is closed
      this.isConnected = true
      onConnect()
    })
  }

  send(request: DiscoveryRequest): void {
    if (this.call.writable) this.call.write(request)
  }

  /**
   * Ends when the server ends the stream. Throws an Error with a sentence for people when it is lost, an UnusableResponse
   * when we gave it up because of what came.
   */
  async *responses(): AsyncGenerator<Response, void> {
    try {
      yield* this.call
    } catch (error) {
      throw this.isTooLate ? new Error('no connection in time') : sentence(error as ServiceError)
    }
  }

  close(): void {
    clearTimeout(this.timer)
    this.call.cancel()
    this.client.close()
    this.credentials.destroySockets()
  }
}

const DATE = / \(\d{4}-\d\d-\d\dT[\d:.]+Z\)/g // of failed attempts; with it no two would be the same to who tells each once
const NO_NOTE = /\. Resolution note: $/
const UNUSABLE = /^(?:Received message |Response message |Failed to decompress )/ // the library's words for our side's refusals
const TOO_LARGE = /^Received message .*larger than/

/** The code's name and what the library has to say, without what only makes it longer. */
function sentence(error: ServiceError): Error {
  if (error.code === undefined) return error
  const details = error.details.replace(DATE, '').replace(NO_NOTE, '')
  const advice = TOO_LARGE.test(details) ? '. XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES allows more' : ''
  const text = `${status[error.code]}: ${details}${advice}`
  return UNUSABLE.test(details)
    ? new UnusableResponse(text, { cause: error })
    : new Error(text, { cause: error })
}

function toBuffer(request: DiscoveryRequest): Buffer {
  return Buffer.from(encodeDiscoveryRequest(request))
}

/** Throws on bytes that are no response, which ends the stream. */
function toResponse(message: Buffer): Response {
  return { ...responseHead(message), bytes: new Uint8Array(message) }
}
