/** What every gRPC frontend does for real clients on real sockets: one suite over all of them keeps them equal. */
import { once } from 'node:events'
import * as http2 from 'node:http2'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { decodeResponse, encodeRequest } from '../../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../../proto/ratelimit.ts'
import {
  type GrpcFrontend,
  type GrpcFrontendOptions,
  STREAMS_MAX,
} from '../../../transports/grpc/frontend.ts'
import { type Listener, listen } from '../../../transports/grpc/listener.ts'
import { createUnaryMethods, SHOULD_RATE_LIMIT } from '../../../transports/grpc/services.ts'
import { FakeRateLimiter, OK, OVER } from '../fake-rate-limiter.ts'
import { FRONTENDS } from './open-port.ts'

const HOST = '127.0.0.1'
const question = (domain: string): RateLimitRequest => ({
  domain,
  descriptors: [{ entries: [{ key: 'user', value: '7' }], limit: null, hitsAddend: null }],
  hitsAddend: 1,
})

for (const [name, make] of Object.entries(FRONTENDS)) {
  describe(name, () => {
    let limiter: FakeRateLimiter
    let frontend: GrpcFrontend
    let listener: Listener
    let client: Client
    let calls: string[]
    let ended: number[] // with what the meter gave at the beginning
    let logged: string[]
    const start = async (options: Partial<GrpcFrontendOptions> = {}) => {
      frontend = make({
        methods: createUnaryMethods(limiter, (level, message) => logged.push(`${level} ${message}`)),
        getMetrics: (method) => ({
          onStart: () => calls.push(method),
          onEnd: (began) => void ended.push(began),
        }),
        ...options,
      })
      listener = await listen({ host: HOST, port: 0, onSocket: (socket) => frontend.accept(socket) })
      client = new Client(`${HOST}:${listener.port}`, credentials.createInsecure(), {
        'grpc.max_send_message_length': -1,
        'grpc.enable_retries': 0,
      })
    }
    const call = (bytes: Uint8Array, options: { path?: string; deadline?: number } = {}) => {
      const same = (data: Buffer) => data
      const { path = SHOULD_RATE_LIMIT, deadline } = options
      let cancel = () => {}
      const answered = new Promise<RateLimitResponse>((resolve, reject) => {
        const ongoing = client.makeUnaryRequest(
          path,
          same,
          same,
          Buffer.from(bytes),
          new Metadata(),
          { deadline },
          (error, response) => (error ? reject(error) : resolve(decodeResponse(response!))),
        )
        cancel = () => ongoing.cancel()
      })
      return Object.assign(answered, { cancel: () => cancel() })
    }
    const ask = (domain: string, options = {}) => call(encodeRequest(question(domain)), options)
    const refusal = async (answered: Promise<unknown>) => {
      const error = (await answered.then(
        () => expect.fail('was answered'),
        (error) => error,
      )) as ServiceError
      return [error.code, error.details]
    }

    beforeEach(() => {
      limiter = new FakeRateLimiter()
      calls = []
      ended = []
      logged = []
    })
    afterEach(() => {
      client.close()
      listener.stop()
      frontend.close()
    })

    describe('calls', () => {
      beforeEach(() => start())

      test('5.1#1: a response', async () => {
        expect(await ask('answer')).toEqual(OK)
        expect(await ask('over')).toEqual(OVER) // over limit is an answer, not a status
        expect(limiter.requests).toEqual([question('answer'), question('over')])
        expect(calls).toEqual(['ShouldRateLimit', 'ShouldRateLimit'])
        expect(ended).toEqual([1, 2])
      })

      test('5.4: an error is UNKNOWN with its message', async () => {
        expect(await refusal(ask('fail'))).toEqual([status.UNKNOWN, 'no rules today'])
      })

      test('a connection without a preface is closed, one with a preface is not', async () => {
        frontend.close()
        listener.stop()
        await start({ handshakeMs: 100 })
        const silent = connect(listener.port, HOST)
        const half = connect(listener.port, HOST).on('connect', () => half.write('PRI * HTTP/2.0'))
        const session = http2.connect(`http://${HOST}:${listener.port}`)
        const startMs = performance.now()
        await Promise.all([once(silent.resume(), 'close'), once(half.resume(), 'close')])
        expect(performance.now() - startMs).toBeGreaterThan(80)
        await new Promise((resolve) => session.ping(resolve as () => void))
        expect(session.closed).toBe(false)
        session.destroy()
      })

      test('a status message with characters not allowed in headers arrives unchanged', async () => {
        expect(await refusal(ask('fail oddly'))).toEqual([status.UNKNOWN, '50 % \ufffd é\n'])
      })

      test('a decision that throws fails its own call only, and is logged', async () => {
        expect(await refusal(ask('throw'))).toEqual([status.UNKNOWN, 'internal error'])
        expect(logged[0]).toMatch(/^error a decision threw: Error: a defect\n +at /)
        expect(await ask('answer')).toEqual(OK)
      })

      test('11.1: log lines of a defect in every call are rate limited', async () => {
        for (let i = 0; i < 50; i++) await refusal(ask('throw'))
        expect(logged.length).toBeLessThan(50) // a second has two: a stack, and the cause of a failed call
      })

      test('of two responses the first one counts', async () => {
        expect(await ask('twice')).toEqual(OK)
      })

      test('many concurrent calls, answered in another order', async () => {
        const answers = Array.from({ length: 50 }, () => ask('wait'))
        await limiter.untilWaiting(50)
        limiter.waiting.reverse()
        limiter.release()
        for (const answer of await Promise.all(answers)) expect(answer).toEqual(OK)
      })

      test('bytes that are not a request: INTERNAL', async () => {
        const [code, message] = await refusal(call(Uint8Array.of(0x0a, 0x05, 0x64)))
        expect(code).toBe(status.INTERNAL)
        expect(message).toMatch(/^the request is not a valid RateLimitRequest: index out of range/)
        expect(limiter.requests).toEqual([])
      })

      test('5.1: an unknown method: UNIMPLEMENTED, and not counted as a call', async () => {
        for (const path of ['/envoy.service.ratelimit.v3.RateLimitService/Nope', '/x/ShouldRateLimit']) {
          const [code] = await refusal(ask('answer', { path }))
          expect(code).toBe(status.UNIMPLEMENTED)
        }
        expect(calls).toEqual([])
      })

      test('5.1: a message of 4 MiB is accepted, one byte more is not', async () => {
        const sized = (bytes: number) => {
          const frame = encodeRequest({ ...question(''), descriptors: [] }).length
          const overhead = frame + 1 + 4 // the domain's tag, and its length in four bytes
          return encodeRequest({ ...question('d'.repeat(bytes - overhead)), descriptors: [] })
        }
        const largest = sized(4 * 1024 * 1024)
        expect(largest.length).toBe(4 * 1024 * 1024)
        expect(await call(largest)).toEqual(OK)
        const [code] = await refusal(call(sized(4 * 1024 * 1024 + 1)))
        expect(code).toBe(status.RESOURCE_EXHAUSTED)
        expect(await ask('answer')).toEqual(OK)
      })

      test('a cancelled call does not affect others, nor does its late response', async () => {
        const cancelled = ask('wait')
        await limiter.untilWaiting(1)
        cancelled.cancel()
        expect((await refusal(cancelled))[0]).toBe(status.CANCELLED)
        expect(await ask('answer')).toEqual(OK) // a round trip, so the server has seen the cancel
        limiter.release()
        expect(await ask('answer')).toEqual(OK)
      })

      test('a deadline passes: DEADLINE_EXCEEDED, and the late error is dropped', async () => {
        const late = ask('wait', { deadline: Date.now() + 1_500 }) // connects in it
        await limiter.untilWaiting(1)
        expect((await refusal(late))[0]).toBe(status.DEADLINE_EXCEEDED)
        expect(await ask('answer')).toEqual(OK)
        limiter.waiting[0].onError(new Error('too late'))
        expect(await ask('answer')).toEqual(OK)
      })

      test('a connection that breaks during a call does not affect others', async () => {
        const session = http2.connect(`http://${HOST}:${listener.port}`)
        session.on('error', () => {})
        rawRequest(session, frame(encodeRequest(question('wait')))).on('error', () => {})
        await limiter.untilWaiting(1)
        session.destroy()
        await once(session, 'close')
        limiter.release()
        expect(await ask('answer')).toEqual(OK)
      })

      test('bytes that are not HTTP/2 close that connection and no other', async () => {
        const socket = connect(listener.port, HOST)
        socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
        socket.on('error', () => {})
        socket.resume()
        await once(socket, 'close')
        expect(await ask('answer')).toEqual(OK)
      })
    })

    describe('on the wire', () => {
      let session: http2.ClientHttp2Session
      beforeEach(async () => {
        await start()
        session = http2.connect(`http://${HOST}:${listener.port}`)
        await once(session, 'remoteSettings')
      })
      afterEach(() => session.destroy())

      test('one frame in, one frame out, status in the trailers', async () => {
        const { headers, trailers, body } = await exchange(session, frame(encodeRequest(question('answer'))))
        expect(headers[':status']).toBe(200)
        expect(headers['content-type']).toMatch(/^application\/grpc/)
        expect(body[0]).toBe(0) // not compressed
        expect(body.readUInt32BE(1)).toBe(body.length - 5)
        expect(decodeResponse(body.subarray(5))).toEqual(OK)
        expect(trailers['grpc-status']).toBe('0')
      })

      test('an error comes as headers only, its message percent-encoded', async () => {
        const { headers, body } = await exchange(session, frame(encodeRequest(question('fail oddly'))))
        expect(headers['grpc-status']).toBe('2')
        expect(headers['grpc-message']).toBe('50%20%25%20%EF%BF%BD%20%C3%A9%0A')
        expect(body.length).toBe(0)
      })

      test('5.1: a gzip request is read', async () => {
        const packed = frame(gzipSync(encodeRequest(question('over'))), 1)
        const { body } = await exchange(session, packed, { 'grpc-encoding': 'gzip' })
        expect(decodeResponse(body.subarray(5))).toEqual(OVER)
      })

      test('gzip that inflates to more than 4 MiB: RESOURCE_EXHAUSTED', async () => {
        const packed = frame(gzipSync(Buffer.alloc(5 * 1024 * 1024)), 1)
        const { headers } = await exchange(session, packed, { 'grpc-encoding': 'gzip' })
        expect(headers['grpc-status']).toBe('8')
      })

      // biome-ignore format: the columns are the specification
      const refused: [string, Record<string, string>, Buffer, Record<string, string>][] = [
        ['an unknown method', { ':path': '/a.B/C' }, frame(new Uint8Array()),
          { 'grpc-status': '12', 'grpc-message': 'The server does not implement the method /a.B/C' }],
        ['a timeout nobody understands', { 'grpc-timeout': 'soon' }, frame(new Uint8Array()),
          { 'grpc-status': '13', 'grpc-message': 'Invalid grpc-timeout value "soon"' }],
        ['an encoding nobody knows', { 'grpc-encoding': 'br' }, frame(new Uint8Array(9), 1),
          { 'grpc-status': '12', 'grpc-message': 'Received message compressed with unsupported encoding "br"' }],
        ['gzip that is none', { 'grpc-encoding': 'gzip' }, frame(new Uint8Array(9), 1),
          { 'grpc-status': '13', 'grpc-message': 'Failed to decompress message' }],
        ['what is not gRPC', { 'content-type': 'application/json' }, Buffer.from('{}'), { ':status': '415' }],
      ]
      for (const [what, changed, body, expected] of refused) {
        test(`5.1: ${what}: ${Object.values(expected).join(' ')}`, async () => {
          const { headers } = await exchange(session, body, changed)
          const got = Object.keys(expected).map((key) => [key, decodeURIComponent(String(headers[key]))])
          expect(Object.fromEntries(got)).toEqual(expected)
        })
      }

      test('no message, or two of them, are refused', async () => {
        for (const bytes of [
          Buffer.alloc(0),
          Buffer.concat([frame(new Uint8Array()), frame(new Uint8Array())]),
        ]) {
          const { headers } = await exchange(session, bytes)
          expect(['12', '13']).toContain(headers['grpc-status']) // libraries differ in the code
        }
      })

      test('a path of odd bytes is an unknown method', async () => {
        const { headers } = await exchange(session, frame(new Uint8Array()), { ':path': '/é%00/\u00ff' })
        expect(headers['grpc-status']).toBe('12')
      })

      test('concurrent calls on a connection are bounded', () => {
        expect(session.remoteSettings.maxConcurrentStreams).toBe(STREAMS_MAX)
      })
    })

    describe('drain', () => {
      test('clients receive GOAWAY, running calls end, then the drain is done', async () => {
        await start()
        const session = http2.connect(`http://${HOST}:${listener.port}`)
        const answered = exchange(session, frame(encodeRequest(question('wait'))))
        await limiter.untilWaiting(1)
        const goaway = once(session, 'goaway')
        const drained = frontend.drain(10_000)
        expect((await goaway)[0]).toBe(http2.constants.NGHTTP2_NO_ERROR)
        limiter.release()
        expect(decodeResponse((await answered).body.subarray(5))).toEqual(OK)
        await drained
      })

      test('idle connections are closed, and new ones are not served', async () => {
        await start()
        const session = http2.connect(`http://${HOST}:${listener.port}`)
        await once(session, 'connect')
        await exchange(session, frame(encodeRequest(question('answer'))))
        const closed = once(session, 'close')
        await frontend.drain(10_000)
        await closed
        const late = connect(listener.port, HOST)
        late.on('error', () => {})
        await once(late, 'close')
      })

      test('a call that never ends is cancelled at the timeout', async () => {
        await start()
        const cut = refusal(ask('wait'))
        await limiter.untilWaiting(1)
        await frontend.drain(50)
        expect((await cut)[0]).toBe(status.UNAVAILABLE)
        limiter.release()
      })

      test('a connection without a preface does not delay it', async () => {
        await start()
        const accepted = new Promise<Socket>((resolve) => {
          const { accept } = frontend
          frontend.accept = (socket) => {
            accept(socket)
            resolve(socket)
          }
        })
        const silent = connect(listener.port, HOST)
        silent.on('error', () => {})
        silent.resume()
        const closed = once(silent, 'close')
        await accepted
        await frontend.drain(200)
        await closed
      })
    })

    test('5.6: an old connection receives GOAWAY, and its calls end', async () => {
      await start({ connectionAgeMs: 100, connectionAgeGraceMs: 10_000 })
      const session = http2.connect(`http://${HOST}:${listener.port}`)
      const answered = exchange(session, frame(encodeRequest(question('wait'))))
      await once(session, 'goaway')
      limiter.release()
      expect(decodeResponse((await answered).body.subarray(5))).toEqual(OK)
      await once(session, 'close')
    })

    test('5.6: calls still running after the grace period are cancelled', async () => {
      await start({ connectionAgeMs: 50, connectionAgeGraceMs: 50 })
      const cut = refusal(ask('wait'))
      expect((await cut)[0]).toBe(status.UNAVAILABLE)
    })
  })
}

/** One gRPC message: not compressed or compressed, its length, its bytes. */
function frame(message: Uint8Array, compressed = 0): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt8(compressed, 0)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

function rawRequest(
  session: http2.ClientHttp2Session,
  body: Buffer,
  headers: Record<string, string> = {},
): http2.ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': SHOULD_RATE_LIMIT,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  })
  stream.end(body)
  return stream
}

async function exchange(session: http2.ClientHttp2Session, body: Buffer, extra?: Record<string, string>) {
  const stream = rawRequest(session, body, extra)
  let [headers, trailers]: http2.IncomingHttpHeaders[] = [{}, {}]
  const chunks: Buffer[] = []
  stream.on('response', (received) => (headers = received))
  stream.on('trailers', (received) => (trailers = received))
  stream.on('data', (chunk) => chunks.push(chunk))
  await once(stream, 'close')
  return { headers, trailers, body: Buffer.concat(chunks) }
}
