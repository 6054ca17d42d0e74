/**
 * All frontends, and a port of 127.0.0.1 with one of them and a real client. Both end with the test.
 */
import {
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js'
import { onTestFinished } from 'vitest'
import type { GrpcFrontend, GrpcFrontendOptions } from '../../../transports/grpc/frontend.ts'
import { grpcJsFrontend } from '../../../transports/grpc/grpc-js.ts'
import { http2Frontend } from '../../../transports/grpc/http2/server.ts'
import { listen } from '../../../transports/grpc/listener.ts'

export const FRONTENDS: Record<string, (options: GrpcFrontendOptions) => GrpcFrontend> = {
  'grpc-js': grpcJsFrontend,
  http2: http2Frontend,
}

const HOST = '127.0.0.1'
const same = (bytes: Buffer) => bytes

export async function openPort(make: (typeof FRONTENDS)[string], options: GrpcFrontendOptions) {
  const frontend = make(options)
  const listener = await listen({ host: HOST, port: 0, onSocket: (socket) => frontend.accept(socket) })
  const address = `${HOST}:${listener.port}`
  const client = newClient(address)
  onTestFinished(() => {
    client.close()
    listener.stop()
    frontend.close()
  })
  return { address, frontend, client }
}

export function newClient(address: string): Client {
  // with the shared pool, all clients of one address would use one connection
  return new Client(address, credentials.createInsecure(), {
    'grpc.enable_retries': 0,
    'grpc.use_local_subchannel_pool': 1,
  })
}

/** One request, one response. Rejects with grpc-js's ServiceError (`code`, `details`). */
export function unary(client: Client, path: string, request: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const done = (error: ServiceError | null, answer?: Buffer) => (error ? reject(error) : resolve(answer!))
    client.makeUnaryRequest(path, same, same, Buffer.from(request), done)
  })
}

/** A stream whose responses are read one by one, or not at all. */
export class Stream {
  readonly call: ClientDuplexStream<Buffer, Buffer>
  readonly status: Promise<StatusObject>
  private onChange = () => {}

  constructor(client: Client, path: string, options: { deadline?: number } = {}) {
    this.call = client.makeBidiStreamRequest(path, same, same, new Metadata(), options)
    for (const event of ['readable', 'end', 'close', 'error']) this.call.on(event, () => this.onChange())
    this.status = new Promise((resolve) => this.call.on('status', resolve))
  }

  send(message: Uint8Array): this {
    this.call.write(Buffer.from(message))
    return this
  }

  end(): this {
    this.call.end()
    return this
  }

  cancel(): void {
    this.call.cancel()
  }

  /** The next response, or null at the end of the stream. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      const answer = this.call.read() as Buffer | null
      if (answer !== null || this.call.readableEnded || this.call.destroyed) return answer
      await new Promise<void>((resolve) => {
        this.onChange = resolve
      })
    }
  }

  /** Code and message of the end, after all unread responses. */
  async ending(): Promise<[code: number, message: string]> {
    while ((await this.next()) !== null) {}
    const { code, details } = await this.status
    return [code, details]
  }
}
