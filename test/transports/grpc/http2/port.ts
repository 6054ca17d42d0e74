/** A port of the HTTP/2 frontend over a FakeRateLimiter, for raw peers. Ends with the test. */
import { onTestFinished } from 'vitest'
import { encodeRequest } from '../../../../proto/codec.ts'
import type { StreamMethod } from '../../../../transports/grpc/frontend.ts'
import { type Http2Options, http2Frontend } from '../../../../transports/grpc/http2/server.ts'
import { listen } from '../../../../transports/grpc/listener.ts'
import { createUnaryMethods } from '../../../../transports/grpc/services.ts'
import { FakeRateLimiter } from '../../fake-rate-limiter.ts'
import { message } from './raw-peer.ts'

export async function openHttp2(options: Partial<Http2Options> & { streams?: readonly StreamMethod[] } = {}) {
  const limiter = new FakeRateLimiter()
  const frontend = http2Frontend({ methods: createUnaryMethods(limiter, () => {}), ...options })
  const { port, stop } = await listen({
    host: '127.0.0.1',
    port: 0,
    onSocket: (socket) => frontend.accept(socket),
  })
  onTestFinished(() => {
    stop()
    frontend.close()
  })
  return { port, frontend, limiter }
}

/** A whole request message, whose domain selects what the limiter does. */
export const ask = (domain: string) =>
  message(
    encodeRequest({
      domain,
      descriptors: [{ entries: [{ key: 'user', value: '7' }], limit: null, hitsAddend: null }],
      hitsAddend: 1,
    }),
  )
