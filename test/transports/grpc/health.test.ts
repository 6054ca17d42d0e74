/**
 * grpc.health.v1.Health over every frontend, with messages built from the .proto file.
 */
import { status } from '@grpc/grpc-js'
import { beforeEach, describe, expect, test } from 'vitest'
import { DRAIN_MESSAGE, type StreamHandler } from '../../../transports/grpc/frontend.ts'
import { HealthService, WATCHERS_MAX } from '../../../transports/grpc/health.ts'
import { createServices } from '../../../transports/grpc/services.ts'
import { FakeRateLimiter } from '../fake-rate-limiter.ts'
import { FRONTENDS, openPort, Stream, unary } from './open-port.ts'
import { protoRoot } from './proto-types.ts'

const HEALTH = '/grpc.health.v1.Health'
const root = protoRoot('grpc/health/v1/health.proto')
const Request = root.lookupType('grpc.health.v1.HealthCheckRequest')
const Response = root.lookupType('grpc.health.v1.HealthCheckResponse')
const ListResponse = root.lookupType('grpc.health.v1.HealthListResponse')
const about = (service: string) => Request.encode({ service }).finish()
const state = (bytes: Buffer | null) => bytes && Response.toObject(Response.decode(bytes), READABLE).status
const READABLE = { enums: String, defaults: true, objects: true }
const NO_REQUEST = Uint8Array.of(0x0a, 0x05, 0x64) // a string of 5 bytes, of which one is present

for (const [name, make] of Object.entries(FRONTENDS)) {
  describe(name, () => {
    let health: HealthService
    let called: string[]
    const start = () => {
      const limiter = new FakeRateLimiter()
      return openPort(make, {
        ...createServices(limiter, health, () => {}),
        getMetrics: (method) => ({ onStart: () => called.push(method), onEnd: () => {} }),
      })
    }
    beforeEach(() => {
      health = new HealthService(true)
      called = []
    })

    // biome-ignore format: the columns are the specification
    const states = [
      // service, healthy       unhealthy
      ['ratelimit', 'SERVING', 'NOT_SERVING'],
      ['',          'SERVING', 'SERVING'    ], // Q11
    ] as const

    for (const [service, healthy, unhealthy] of states) {
      test(`5.5${service === '' ? ' 12#11' : ''}: Check of '${service}': ${healthy}, unhealthy ${unhealthy}`, async () => {
        const { client } = await start()
        const check = async () => state(await unary(client, `${HEALTH}/Check`, about(service)))
        expect(await check()).toBe(healthy)
        health.isHealthy = false
        expect(await check()).toBe(unhealthy)
        health.isHealthy = true
        expect(await check()).toBe(healthy)
      })
    }

    test('5.5: Check of another service: NOT_FOUND `unknown service`', async () => {
      const { client } = await start()
      for (const service of ['nope', 'Ratelimit', 'envoy.service.ratelimit.v3.RateLimitService']) {
        const refused = unary(client, `${HEALTH}/Check`, about(service))
        await expect(refused).rejects.toMatchObject({ code: status.NOT_FOUND, details: 'unknown service' })
      }
    })

    test('5.1#2 5.5: List contains both services', async () => {
      const { client } = await start()
      const list = async () => {
        const answer = ListResponse.decode(await unary(client, `${HEALTH}/List`, new Uint8Array()))
        return ListResponse.toObject(answer, READABLE).statuses
      }
      expect(await list()).toEqual({ '': { status: 'SERVING' }, ratelimit: { status: 'SERVING' } })
      health.isHealthy = false
      expect(await list()).toEqual({ '': { status: 'SERVING' }, ratelimit: { status: 'NOT_SERVING' } })
    })

    test('5.5: Check and List are counted as calls, Watch is not', async () => {
      const { client } = await start()
      await unary(client, `${HEALTH}/Check`, about(''))
      await unary(client, `${HEALTH}/Check`, about('nope')).catch(() => {}) // 7.1: failed ones as well
      await unary(client, `${HEALTH}/List`, new Uint8Array())
      await new Stream(client, `${HEALTH}/Watch`).send(about('')).next()
      expect(called).toEqual(['Check', 'Check', 'List'])
    })

    test('bytes that are not a request: INTERNAL', async () => {
      const { client } = await start()
      const details = expect.stringMatching(
        /^the request is not a valid HealthCheckRequest: index out of range/,
      )
      const refused = unary(client, `${HEALTH}/Check`, NO_REQUEST)
      await expect(refused).rejects.toMatchObject({ code: status.INTERNAL, details })
      expect(await new Stream(client, `${HEALTH}/Watch`).send(NO_REQUEST).ending()).toEqual([
        status.INTERNAL,
        details,
      ])
    })

    describe('Watch', () => {
      test('5.5: sends the state at once, then each change once', async () => {
        const { client } = await start()
        const stream = new Stream(client, `${HEALTH}/Watch`).send(about('ratelimit')).end()
        expect(state(await stream.next())).toBe('SERVING')
        for (const isHealthy of [true, false, false, true, true, false]) health.isHealthy = isHealthy
        for (const expected of ['NOT_SERVING', 'SERVING', 'NOT_SERVING']) {
          expect(state(await stream.next())).toBe(expected)
        }
        stream.cancel()
      })

      test('5.5: starts with NOT_SERVING while unhealthy', async () => {
        health.isHealthy = false
        const { client } = await start()
        const stream = new Stream(client, `${HEALTH}/Watch`).send(about('ratelimit'))
        expect(state(await stream.next())).toBe('NOT_SERVING')
        stream.cancel()
      })

      test('5.5: an unknown service: SERVICE_UNKNOWN, and the stream stays open', async () => {
        const { client } = await start()
        const unknown = new Stream(client, `${HEALTH}/Watch`).send(about('nope')).end()
        expect(state(await unknown.next())).toBe('SERVICE_UNKNOWN')
        const known = new Stream(client, `${HEALTH}/Watch`).send(about('ratelimit')).end()
        expect(state(await known.next())).toBe('SERVING')
        health.isHealthy = false
        expect(state(await known.next())).toBe('NOT_SERVING')
        unknown.cancel()
        expect((await unknown.ending())[0]).toBe(status.CANCELLED) // until then it was open
      })

      test('12#16: ends with a drain, after NOT_SERVING', async () => {
        const { client, frontend } = await start()
        const ours = new Stream(client, `${HEALTH}/Watch`).send(about('ratelimit')).end()
        const whole = new Stream(client, `${HEALTH}/Watch`).send(about('')).end()
        await Promise.all([ours.next(), whole.next()])
        health.isHealthy = false
        const drained = frontend.drain(10_000)
        expect(state(await ours.next())).toBe('NOT_SERVING')
        expect(await ours.ending()).toEqual([status.UNAVAILABLE, DRAIN_MESSAGE])
        expect(await whole.next()).toBe(null) // Q11: SERVING to the end
        expect(await whole.ending()).toEqual([status.UNAVAILABLE, DRAIN_MESSAGE])
        await drained
      })

      test('accepts one request: without one, and with a second one, INTERNAL', async () => {
        const { client } = await start()
        const none = new Stream(client, `${HEALTH}/Watch`).end()
        expect(await none.ending()).toEqual([status.INTERNAL, 'Watch takes one request, and got none'])
        const two = new Stream(client, `${HEALTH}/Watch`).send(about('')).send(about(''))
        expect(await two.ending()).toEqual([status.INTERNAL, 'Watch takes one request, and got another'])
      })
    })
  })
}

describe('watchers of a worker', () => {
  /** A watch without a socket: only the service's side is tested here. */
  const watch = (health: HealthService, service: string, send = (_status: number) => true) => {
    const ends: string[] = []
    const call = {
      send: (bytes: Uint8Array) => send(bytes[1] ?? 0),
      end: () => ends.push('OK'),
      refuse(code: number, message: string) {
        ends.push(`${code} ${message}`)
        handler.closed()
      },
    }
    const handler: StreamHandler = health.streams[0].open(call)
    handler.message(about(service))
    return { handler, ends }
  }

  test('are bounded, and one that ends makes room', () => {
    const health = new HealthService(true)
    const first = watch(health, 'ratelimit')
    for (let i = 1; i < WATCHERS_MAX; i++) expect(watch(health, i % 2 ? '' : 'nope').ends).toEqual([])
    expect(watch(health, 'ratelimit').ends).toEqual(['8 more than 1000 watches are open'])
    first.handler.closed()
    expect(watch(health, 'ratelimit').ends).toEqual([])
    expect(watch(health, 'ratelimit').ends).toHaveLength(1)
  })

  test('5.5: one that does not read gets the last state when it reads, and only if it changed', () => {
    const health = new HealthService(true)
    const sent: number[] = []
    let canSend = false
    const { handler } = watch(health, 'ratelimit', (status) => {
      sent.push(status)
      return canSend
    })
    expect(sent).toEqual([1]) // and now its queue is full
    health.isHealthy = false
    health.isHealthy = true
    health.isHealthy = false
    expect(sent).toEqual([1]) // nothing is queued
    canSend = true
    handler.writable()
    expect(sent).toEqual([1, 2])
    handler.writable()
    health.isHealthy = false
    expect(sent).toEqual([1, 2])
    health.isHealthy = true
    expect(sent).toEqual([1, 2, 1])
    handler.closed()
    health.isHealthy = false
    expect(sent).toEqual([1, 2, 1])
  })
})
