/**
 * Health as a whole service shows it: `/healthcheck`, Check and Watch agree in each state (spec 8.2).
 */
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, startService } from '../helpers/service.ts'
import { startSharedRedis, startSharedService } from '../helpers/shared.ts'
import { newClient, Stream, unary } from '../transports/grpc/open-port.ts'
import { protoRoot } from '../transports/grpc/proto-types.ts'

const RULES = 'domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 9 } }]\n'
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
const root = protoRoot('grpc/health/v1/health.proto')
const Request = root.lookupType('grpc.health.v1.HealthCheckRequest')
const Response = root.lookupType('grpc.health.v1.HealthCheckResponse')
const encodeRequest = (service: string) => Request.encode({ service }).finish()
const decodeStatus = (bytes: Buffer) =>
  Response.toObject(Response.decode(bytes), { enums: String }).status as string

/** One gRPC connection, so one worker, and every way to read health. */
function observe(service: RunningService) {
  const client = newClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  const check = async (name: string) =>
    decodeStatus(await unary(client, '/grpc.health.v1.Health/Check', encodeRequest(name)))
  const http = async () => (await fetch(`${service.http}/healthcheck`)).status
  const report = async () => (await fetch(`${service.http}/healthcheck?verbose`)).text()
  return {
    check,
    http,
    watch: (name: string) =>
      new Stream(client, '/grpc.health.v1.Health/Watch').send(encodeRequest(name)).end(),
    /** Waits until Check of `ratelimit` and `/healthcheck` agree on this; workers are notified one by one. */
    async waitFor(expected: 'SERVING' | 'NOT_SERVING'): Promise<void> {
      const wanted = [expected, expected === 'SERVING' ? 200 : 500]
      await eventually(async () => expect([await check('ratelimit'), await http()]).toEqual(wanted))
      expect(await check('')).toBe('SERVING') // Q11
    },
    /** Waits until the verbose report matches. */
    async waitForReport(pattern: RegExp): Promise<void> {
      await eventually(async () => expect(await report()).toMatch(pattern))
    },
  }
}

/** The next status of a watch; null at its end. */
async function nextStatus(stream: Stream): Promise<string | null> {
  const bytes = await stream.next()
  return bytes && decodeStatus(bytes)
}

test('8.3#2 Q36: SIGTERM: watches are notified, ports stay open for DRAIN_DELAY', async () => {
  const env = { DRAIN_DELAY: '10m', WORKERS: '2' } // longer than the test takes on any machine
  const service = await startService({ rules: { 'shop.yaml': RULES }, env })
  const health = observe(service)
  const watch = health.watch('ratelimit')
  expect(await nextStatus(watch)).toBe('SERVING')
  await health.waitFor('SERVING')
  service.child.kill('SIGTERM')
  expect(await nextStatus(watch)).toBe('NOT_SERVING')
  await health.waitFor('NOT_SERVING')
  const [host, port] = service.address('gRPC').split(':')
  const late = connect(Number(port), host)
  await once(late, 'connect')
  late.destroy()
})

test('8.3#4 Q16: after DRAIN_DELAY watches end, and hold up nothing', async () => {
  const env = { DRAIN_DELAY: '300ms', DRAIN_TIMEOUT: '10m', WORKERS: '2' }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env })
  const health = observe(service)
  const watches = [health.watch('ratelimit'), health.watch('')]
  for (const watch of watches) expect(await nextStatus(watch)).toBe('SERVING')
  const signalMs = performance.now()
  service.child.kill('SIGTERM')
  expect(await nextStatus(watches[0])).toBe('NOT_SERVING')
  expect(await watches[0].ending()).toEqual([status.UNAVAILABLE, 'the server is shutting down'])
  expect(performance.now() - signalMs).toBeGreaterThanOrEqual(290)
  expect(await nextStatus(watches[1])).toBe(null) // the process as a whole never left SERVING
  expect((await watches[1].ending())[0]).toBe(status.UNAVAILABLE)
  expect((await service.exited).code).toBe(0)
})

describe('with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION', () => {
  let redis: RedisServer
  let service: RunningService
  beforeAll(async () => {
    redis = await startSharedRedis()
    service = await startSharedService({
      rules: { 'shop.yaml': RULES },
      env: {
        REDIS_URL: redis.address,
        REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
        REDIS_STARTUP_INITIAL_INTERVAL: '10ms',
        WORKERS: '2',
      },
    })
  })

  test('8.2: the report shows a Redis that is connected and fails every call', async () => {
    const health = observe(service)
    await redis.run('CONFIG', 'SET', 'maxmemory', '1')
    expect((await postJson(service, USER)).status).toBe(400)
    await health.waitForReport(/^redis: (partly )?failing since .+Z; see the log for the cause; does not /m)
    await health.waitFor('SERVING') // there is a connection, which is all that the setting requires
    await redis.run('CONFIG', 'SET', 'maxmemory', '0')
    await health.waitForReport(/^redis: ok$/m)
  })

  test('8.2: one worker with a connection is enough', async () => {
    const health = observe(service)
    const own = Number(await redis.run('CLIENT', 'ID'))
    const findOthers = async () => {
      const ids = String(await redis.run('CLIENT', 'LIST')).matchAll(/^id=(\d+) /gm)
      return Array.from(ids, ([, id]) => Number(id)).filter((id) => id !== own)
    }
    await eventually(async () => expect(await findOthers()).toHaveLength(2)) // that of main is closed
    await redis.run('CONFIG', 'SET', 'maxclients', '2') // one worker cannot reconnect
    await redis.run('CLIENT', 'KILL', 'ID', (await findOthers())[0])
    await health.waitForReport(/^redis: partly failing since .+Z/m)
    await health.waitFor('SERVING')
    await redis.run('CONFIG', 'SET', 'maxclients', '1')
    await redis.run('CLIENT', 'KILL', 'ID', (await findOthers())[0])
    await health.waitFor('NOT_SERVING')
    await redis.run('CONFIG', 'SET', 'maxclients', '100')
    await health.waitFor('SERVING')
    await health.waitForReport(/^redis: ok$/m)
  })

  test('8.2: health follows Redis, also while a worker is replaced', async () => {
    const health = observe(service)
    const watch = health.watch('ratelimit')
    expect(await nextStatus(watch)).toBe('SERVING')
    await redis.stop()
    expect(await nextStatus(watch)).toBe('NOT_SERVING')
    await health.waitFor('NOT_SERVING')
    service.child.send({ crashWorker: 0 })
    await service.logged('worker 0 ended') // its replacement waits for Redis
    const second = await startRedis({ port: redis.port })
    onTestFinished(() => second.stop())
    for (let i = 0; i < 4; i++) {
      const other = observe(service) // the kernel chooses a worker for each connection
      await other.waitFor('SERVING')
      expect(await nextStatus(other.watch('ratelimit'))).toBe('SERVING')
    }
  })
})

test('8.2: without it health does not follow Redis; the report shows its state', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { REDIS_URL: redis.address } })
  const health = observe(service)
  await health.waitFor('SERVING')
  await health.waitForReport(/^sigterm: ok\nredis: ok\nrules: /)
  await redis.stop()
  await service.logged('is disconnected')
  await health.waitForReport(
    /^sigterm: ok\nredis: failing since .+Z; see the log for the cause; does not affect the status\nrules: /,
  )
  await health.waitFor('SERVING')
  const second = await startRedis({ port: redis.port })
  onTestFinished(() => second.stop())
  await health.waitForReport(/^sigterm: ok\nredis: ok\nrules: /)
})

test('8.1#6 8.2, Q5: memcached is no component of health; the report shows that it is absent', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: {
      BACKEND_TYPE: 'memcache',
      MEMCACHE_HOST_PORT: '127.0.0.1:1',
      REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
    },
  })
  const health = observe(service)
  expect([await health.check('ratelimit'), await health.http()]).toEqual(['SERVING', 200])
  await health.waitForReport(
    /^sigterm: ok\nmemcached: failing since .+Z; see the log for the cause; does not affect the status\nrules: /,
  )
  await health.waitFor('SERVING')
})

test('8.1#6 8.2 5.5: with the memory store healthy from the start; Check is counted, Watch is not', async () => {
  const env = { BACKEND_TYPE: 'memory', REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env })
  const health = observe(service)
  expect([await health.check('ratelimit'), await health.http()]).toEqual(['SERVING', 200])
  await expect(health.check('nope')).rejects.toMatchObject({ code: status.NOT_FOUND })
  await nextStatus(health.watch('ratelimit'))
  const stats = await service.stats()
  expect(stats['ratelimit_server.Check.total_requests']).toBe(2)
  expect(Object.keys(stats).filter((name) => name.includes('Watch'))).toEqual([])
})

test('8.2: with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED health follows what is loaded', async () => {
  const service = await startService({
    rules: { 'shop.yaml': 'domain: [' },
    env: { HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' },
  })
  const health = observe(service)
  const watch = health.watch('ratelimit')
  const file = join(service.rulesDirectory, 'shop.yaml')
  expect(await nextStatus(watch)).toBe('NOT_SERVING')
  await health.waitFor('NOT_SERVING')
  writeFileSync(file, RULES)
  expect(await nextStatus(watch)).toBe('SERVING')
  await health.waitFor('SERVING')
  writeFileSync(file, 'domain: [')
  await eventually(() =>
    expect(service.log.split('Error loading new configuration').length).toBeGreaterThan(2),
  )
  await health.waitFor('SERVING') // a failed load changes no status, but the report shows it
  await health.waitForReport(
    /^sigterm: ok\nconfig: ok\nrules: in force since .+Z\nlast load: failed at .+Z; /,
  )
  rmSync(file)
  expect(await nextStatus(watch)).toBe('NOT_SERVING')
  await health.waitFor('NOT_SERVING')
  await health.waitForReport(/^sigterm: ok\nconfig: failing\nrules: in force since .+Z\nlast load: ok\n$/)
})
