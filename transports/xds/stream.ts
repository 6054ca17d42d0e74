/**
 * One connection to the management server with the one stream on it (spec 8.6), by @grpc/grpc-js.
 *
 *     open ──► connecting ──► connected ──► requests out, responses in ──► lost
 *                  └── refused, or no connection within CONNECT_MS_MAX ─────┘
 *
 * Responses are pulled one at a time. Up to 16 more are buffered (the high-water mark of Node's object streams); then HTTP/2
 * flow control stops the server. An object is not reused after its stream was lost.
 */
import { Client, type ClientDuplexStream, type ServiceError, status } from '@grpc/grpc-js'
import { type DiscoveryRequest, encodeDiscoveryRequest, responseHead } from '../../proto/discovery.ts'
import type { Endpoint } from './endpoint.ts'
import { TrackedCredentials } from './tracked-credentials.ts'

const METHOD = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const CONNECT_MS_MAX = 20_000 // for DNS, TCP and TLS together; the library has no limit

export interface Response {
  version: string
  nonce: string
  bytes: Uint8Array<ArrayBuffer> // the whole message, in its own memory, so that it can be transferred to another thread
}

/** A response was received but is too large or cannot be decoded. */
export class UnusableResponse extends Error {}

export interface StreamOptions {
  endpoint: Endpoint
  onConnect: () => void
  connectMsMax?: number // for tests
}

export class XdsStream {
  isConnected = false // or was, after it is lost
  private readonly credentials: TrackedCredentials
  private readonly client: Client
  private readonly call: ClientDuplexStream<DiscoveryRequest, Response>
  private readonly timer: NodeJS.Timeout
  private isTimedOut = false

  /** Throws for an invalid target. */
  constructor({ endpoint, onConnect, connectMsMax = CONNECT_MS_MAX }: StreamOptions) {
    const { target, options, headers } = endpoint
    this.credentials = new TrackedCredentials(endpoint.layers())
    this.client = new Client(target, this.credentials, options)
    this.call = this.client.makeBidiStreamRequest(METHOD, toBuffer, toResponse, headers.clone())
    this.call.on('error', () => {}) // `responses` throws the first one; closing may cause another
    this.timer = setTimeout(() => {
      this.isTimedOut = true
      this.call.cancel()
    }, connectMsMax)
    this.client.waitForReady(Number.POSITIVE_INFINITY, (error) => {
      if (error) return // closed meanwhile
      clearTimeout(this.timer) // the library's own timer would survive the client
      this.isConnected = true
      onConnect()
    })
  }

  send(request: DiscoveryRequest): void {
    if (this.call.writable) this.call.write(request)
  }

  /**
   * Ends when the server ends the stream. Throws an Error if the stream is lost, an UnusableResponse if it was given up because
   * of a response.
   */
  async *responses(): AsyncGenerator<Response, void> {
    try {
      yield* this.call
    } catch (error) {
      throw this.isTimedOut ? new Error('no connection in time') : toError(error as ServiceError)
    }
  }

  close(): void {
    clearTimeout(this.timer)
    this.call.cancel()
    this.client.close()
    this.credentials.destroySockets()
  }
}

const DATE = / \(\d{4}-\d\d-\d\dT[\d:.]+Z\)/g // time of a failed attempt, which would make each message unique and defeat the log limit
const NO_NOTE = /\. Resolution note: $/
const UNUSABLE = /^(?:Received message |Response message |Failed to decompress )/ // the library's messages if this side refuses a response
const TOO_LARGE = /^Received message .*larger than/

/** The name of the status code and the library's details, without noise. */
function toError(error: ServiceError): Error {
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

/** Throws for an invalid message, which ends the stream. */
function toResponse(message: Buffer): Response {
  return { ...responseHead(message), bytes: new Uint8Array(message) }
}
