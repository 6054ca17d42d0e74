/**
 * A management server for xDS on 127.0.0.1: real sockets, and messages by protobufjs, which shares no code with the service.
 *
 *     const server = await startXdsServer()
 *     await server.request()                                // the first request of a client
 *     server.send({ version: '1', resources: [config('a', 'shop', [{ key: 'user' }])] })
 *     await server.request()                                // its ACK or NACK
 *     server.stop()                                         // closes all connections; { port: server.port } starts it again
 */
import { readFileSync } from 'node:fs'
import {
  type handleBidiStreamingCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type status,
} from '@grpc/grpc-js'
import { onTestFinished } from 'vitest'
import { protoRoot } from '../transports/grpc/proto-types.ts'
import type { Pair } from './certificates.ts'
import { Queue } from './queue.ts'

const METHOD = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
export const CONFIG = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

const root = protoRoot(
  'envoy/service/discovery/v3/discovery.proto',
  'ratelimit/config/ratelimit/v3/rls_conf.proto',
)
const RequestType = root.lookupType('envoy.service.discovery.v3.DiscoveryRequest')
const ResponseType = root.lookupType('envoy.service.discovery.v3.DiscoveryResponse')
const ConfigType = root.lookupType('ratelimit.config.ratelimit.v3.RateLimitConfig')

/** A request. Fields that were not on the wire are absent. */
export interface SeenRequest {
  version_info?: string
  node?: { id?: string; metadata?: { fields?: Record<string, { string_value?: string }> } }
  resource_names?: string[]
  type_url?: string
  response_nonce?: string
  error_detail?: { code?: number; message?: string }
}

export interface Any {
  type_url: string
  value: Uint8Array
}

export interface SentResponse {
  version: string
  nonce?: string // default `n` and the version
  resources?: Any[]
}

/** Fields as rls_conf.proto has them. */
export interface DescriptorFields {
  key?: string
  value?: string
  rate_limit?: Record<string, unknown>
  descriptors?: DescriptorFields[]
  shadow_mode?: boolean
  detailed_metric?: boolean
  quota_mode?: boolean
  metadata?: unknown
}

export interface XdsServerOptions {
  port?: number // default: any free port
  tls?: Pair & { clientCa?: string } // with `clientCa` clients need a certificate
}

type Duplex = ServerDuplexStream<Buffer, Uint8Array>

/** One resource. */
export function config(name: string, domain: string, descriptors: DescriptorFields[]): Any {
  return {
    type_url: CONFIG,
    value: ConfigType.encode(ConfigType.fromObject({ name, domain, descriptors })).finish(),
  }
}

/** A resource with one rule: this many requests per year for `key`. */
export function limit(domain: string, key: string, requestsPerYear: number): Any {
  return config(`${domain}.conf`, domain, [
    { key, rate_limit: { unit: 'YEAR', requests_per_unit: requestsPerYear } },
  ])
}

export function responseBytes({ version, nonce = `n${version}`, resources = [] }: SentResponse): Uint8Array {
  return ResponseType.encode(ResponseType.fromObject({ version_info: version, nonce, resources })).finish()
}

export class XdsServer {
  readonly port: number
  readonly headers: Metadata[] = [] // of each stream, in order
  readonly authorities: string[] = [] // of each stream: the `:authority` of the client
  private readonly server: Server
  private readonly streams = new Set<Duplex>()
  private readonly requests = new Queue<SeenRequest>()

  constructor(server: Server, port: number) {
    this.server = server
    this.port = port
  }

  get target(): string {
    return `127.0.0.1:${this.port}`
  }

  get streamsCount(): number {
    return this.headers.length
  }

  /** Takes the next request, or waits for it. */
  request(): Promise<SeenRequest> {
    return this.requests.next()
  }

  /** Requests that have arrived and were not taken. */
  get waitingCount(): number {
    return this.requests.length
  }

  /** Sends on all open streams. */
  send(response: SentResponse | Uint8Array): void {
    const bytes = response instanceof Uint8Array ? response : responseBytes(response)
    for (const stream of this.streams) stream.write(bytes)
  }

  /** Ends all streams, normally or with an error. */
  endStreams(error?: { code: status; details: string }): void {
    for (const stream of this.streams) {
      if (error) stream.emit('error', { ...error, metadata: new Metadata() })
      else stream.end()
    }
  }

  stop(): void {
    this.server.forceShutdown()
  }

  accept(stream: Duplex): void {
    this.headers.push(stream.metadata)
    this.authorities.push(stream.getHost())
    this.streams.add(stream)
    const gone = () => this.streams.delete(stream)
    stream.on('cancelled', gone).on('close', gone).on('error', gone)
    stream.on('data', (bytes: Buffer) => {
      this.requests.add(RequestType.toObject(RequestType.decode(bytes)) as SeenRequest)
    })
    stream.on('end', () => stream.end())
  }
}

/** It is stopped after the test. */
export async function startXdsServer({ port = 0, tls }: XdsServerOptions = {}): Promise<XdsServer> {
  const server = new Server({ 'grpc.max_send_message_length': -1 })
  let running: XdsServer | null = null
  const handle: handleBidiStreamingCall<Buffer, Uint8Array> = (stream) => running?.accept(stream)
  server.register(
    METHOD,
    handle,
    (bytes: Uint8Array) => Buffer.from(bytes),
    (bytes: Buffer) => bytes,
    'bidi',
  )
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(
      `127.0.0.1:${port}`,
      tls ? tlsCredentials(tls) : ServerCredentials.createInsecure(),
      (error, p) => (error ? reject(error) : resolve(p)),
    )
  })
  running = new XdsServer(server, bound)
  onTestFinished(() => server.forceShutdown())
  return running
}

function tlsCredentials({ cert, key, clientCa }: NonNullable<XdsServerOptions['tls']>): ServerCredentials {
  const pairs = [{ cert_chain: readFileSync(cert), private_key: readFileSync(key) }]
  return ServerCredentials.createSsl(clientCa ? readFileSync(clientCa) : null, pairs, clientCa !== undefined)
}
