/**
 * A gRPC client on a connection of its own: proto/codec.ts over @grpc/grpc-js.
 */
import { readFileSync } from 'node:fs'
import { type ChannelCredentials, Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { decodeResponse, encodeRequest } from '../../proto/codec.ts'
import type { Entry, RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import type { Pair } from './certificates.ts'

export class GrpcClient {
  private readonly client: Client

  /** `tls`: PEM files. The server's certificate is checked for `localhost`. */
  constructor(address: string, tls?: { ca: string; pair?: Pair }) {
    // with the shared pool, all clients of one address would use one connection, and so one worker
    this.client = new Client(address, tls ? tlsCredentials(tls) : credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      ...(tls && { 'grpc.ssl_target_name_override': 'localhost' }),
    })
  }

  /** Rejects with grpc-js's ServiceError (`code`, `details`). `timeoutMs` becomes the call's grpc-timeout. */
  ask(request: RateLimitRequest, timeoutMs?: number): Promise<RateLimitResponse> {
    return new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, response?: RateLimitResponse) =>
        error ? reject(error) : resolve(response!)
      const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs }
      const metadata = new Metadata()
      this.client.makeUnaryRequest(
        ...([SHOULD_RATE_LIMIT, toBuffer, decodeResponse, request, metadata, options] as const),
        done,
      )
    })
  }

  close(): void {
    this.client.close()
  }
}

/** A request of one descriptor: `question('shop', { user: 'alice' })`. */
export function question(domain: string, entries: Record<string, string>, hitsAddend = 0): RateLimitRequest {
  const list: Entry[] = Object.entries(entries).map(([key, value]) => ({ key, value }))
  return { domain, descriptors: [{ entries: list, limit: null, hitsAddend: null }], hitsAddend }
}

function tlsCredentials({ ca, pair }: { ca: string; pair?: Pair }): ChannelCredentials {
  if (!pair) return credentials.createSsl(readFileSync(ca))
  return credentials.createSsl(readFileSync(ca), readFileSync(pair.key), readFileSync(pair.cert))
}

function toBuffer(request: RateLimitRequest): Buffer {
  return Buffer.from(encodeRequest(request))
}
