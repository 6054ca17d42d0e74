/**
 * Health as a whole service shows it: `/healthcheck`, Check and Watch say the same in each state (spec 8.2).
 */
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, startService } from '../helpers/service.ts'
import { newClient, Stream, unary } from '../transports/grpc/open-port.ts'
import { protoRoot } from '../transports/grpc/proto-types.ts'

const RULES = 'domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 9 } }]\n'
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
const WAIT = { timeout: 15_000 }
const root = protoRoot('grpc/health/v1/health.proto')
const Request = root.lookupType('grpc.health.v1.HealthCheckRequest')
const Response = root.lookupType('grpc.health.v1.HealthCheckResponse')
const about = (service: string) => Request.encode({ service }).finish()
const state = (bytes: Buffer) => Response.toObject(Response.decode(bytes), { enums: String }).status as string

/** One gRPC connection, so one worker, and every way to ask for health. */
function observe(service: RunningService) {
  const client = newClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  const check = async (name: string) =>
    state(await unary(client, '/grpc.health.v1.Health/Check', about(name)))
  const http = async () => (await fetch(`${service.http}/healthcheck`)).status
  return {
    check,
    http,
    report: async () => (await fetch(`${service.http}/healthcheck?verbose`)).text(),
    watch: (name: string) => new Stream(client, '/grpc.health.v1.Health/Watch').send(about(name)).end(),
    /** Both say so, for `ratelimit`; workers are told one by one, so it may take a moment. */
    async isServing(expected: boolean): Promise<void> {
      const wanted = expected ? 'SERVING 200' : 'NOT_SERVING 500'
      const now = async () => `${await check('ratelimit')} ${await http()}`
      await eventually(async () => (await now()) === wanted)
      expect(await check('')).toBe('SERVING') // Q11
    },
  }
}

async function told(stream: Stream): Promise<string | null> {
  const bytes = await stream.next()
  return bytes && state(bytes)
}

test('8.3#2 8.3#4 Q36: SIGTERM: watches are told at once, ports stay open for DRAIN_DELAY, then watches end', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { DRAIN_DELAY: '1500ms', WORKERS: '2' },
  })
  const health = observe(service)
  const [ours, whole] = [health.watch('ratelimit'), health.watch('')]
  expect([await told(ours), await told(whole)]).toEqual(['SERVING', 'SERVING'])
  await health.isServing(true)
  const sentMs = performance.now()
  service.child.kill('SIGTERM')
  expect(await told(ours)).toBe('NOT_SERVING')
  await health.isServing(false) // on connections old and new
  const [host, port] = service.address('gRPC').split(':')
  const late = connect(Number(port), host)
  await once(late, 'connect')
  late.destroy()
  expect(await ours.ending()).toEqual([status.UNAVAILABLE, 'the server is shutting down'])
  expect(performance.now() - sentMs).toBeGreaterThanOrEqual(1_490)
  expect(await told(whole)).toBe(null) // nothing but SERVING was ever said
  expect((await whole.ending())[0]).toBe(status.UNAVAILABLE)
  expect((await service.exited).code).toBe(0)
  expect(performance.now() - sentMs).toBeLessThan(15_000) // Q16: open watches hold up nothing
})

test('8.2: with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION health follows Redis, also while a worker is replaced', async () => {
  const redis = await startRedis()
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: redis.address, REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true', WORKERS: '2' },
  })
  const health = observe(service)
  const watch = health.watch('ratelimit')
  expect(await told(watch)).toBe('SERVING')
  await health.isServing(true)
  await redis.stop()
  expect(await told(watch)).toBe('NOT_SERVING')
  await health.isServing(false)
  service.child.send({ crashWorker: 0 })
  await service.logged('worker 0 ended') // its replacement waits for Redis
  const again = await startRedis({ port: redis.port })
  onTestFinished(() => again.stop())
  for (let i = 0; i < 4; i++) {
    const fresh = observe(service) // the kernel deals it to one worker or the other
    await fresh.isServing(true)
    expect(await told(fresh.watch('ratelimit'))).toBe('SERVING')
  }
  await service.stop()
})

test('8.2: without it health stays as it is when Redis goes; the report tells', async () => {
  const redis = await startRedis()
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { REDIS_URL: redis.address } })
  const health = observe(service)
  await health.isServing(true)
  await expect.poll(health.report, WAIT).toMatch(/^sigterm: ok\nredis: ok\nrules: /)
  await redis.stop()
  await service.logged('is disconnected')
  await expect
    .poll(health.report, WAIT)
    .toMatch(
      /^sigterm: ok\nredis: failing since .+Z; see the log for the cause; does not affect the status\nrules: /,
    )
  await health.isServing(true)
  const again = await startRedis({ port: redis.port })
  onTestFinished(() => again.stop())
  await expect.poll(health.report, WAIT).toMatch(/^sigterm: ok\nredis: ok\nrules: /)
  await service.stop()
})

test('8.2: the report tells of a Redis that is connected and fails every call', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const env = { REDIS_URL: redis.address, REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env })
  const health = observe(service)
  await redis.run('CONFIG', 'SET', 'maxmemory', '1')
  expect((await postJson(service, USER)).status).toBe(400)
  await expect
    .poll(health.report, WAIT)
    .toMatch(/^redis: failing since .+Z; see the log for the cause; does not /m)
  await health.isServing(true) // there is a connection, which is all the setting asks for
})

test('8.2: with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION one worker with a connection is enough', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: {
      REDIS_URL: redis.address,
      REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
      REDIS_STARTUP_INITIAL_INTERVAL: '10ms',
      WORKERS: '2',
    },
  })
  const health = observe(service)
  const watch = health.watch('ratelimit')
  expect(await told(watch)).toBe('SERVING')
  const own = Number(await redis.run('CLIENT', 'ID'))
  const others = async () => {
    const ids = String(await redis.run('CLIENT', 'LIST')).matchAll(/^id=(\d+) /gm)
    return Array.from(ids, ([, id]) => Number(id)).filter((id) => id !== own)
  }
  await expect.poll(async () => (await others()).length, WAIT).toBe(2) // that of main is gone
  await redis.run('CONFIG', 'SET', 'maxclients', '2') // one worker cannot come back
  await redis.run('CLIENT', 'KILL', 'ID', (await others())[0])
  await expect.poll(health.report, WAIT).toMatch(/^redis: partly failing since .+Z/m)
  await health.isServing(true)
  await redis.run('CONFIG', 'SET', 'maxclients', '1')
  await redis.run('CLIENT', 'KILL', 'ID', (await others())[0])
  await health.isServing(false)
})

test('8.2, Q5: the report tells of a memcached that is away; the status stays', async () => {
  const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: '127.0.0.1:1' }
  const health = observe(await startService({ rules: { 'shop.yaml': RULES }, env }))
  await expect
    .poll(health.report, WAIT)
    .toMatch(
      /^sigterm: ok\nmemcached: failing since .+Z; see the log for the cause; does not affect the status\nrules: /,
    )
  await health.isServing(true)
})

const memcached = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: '127.0.0.1:1' } // nobody is there
for (const [store, env] of Object.entries<Record<string, string>>({
  memory: { BACKEND_TYPE: 'memory' },
  memcached,
})) {
  test(`8.1#6 8.2, Q5: with ${store} there is no component of Redis: healthy from the start`, async () => {
    const service = await startService({
      rules: { 'shop.yaml': RULES },
      env: { REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true', ...env },
    })
    const health = observe(service)
    expect([await health.check('ratelimit'), await health.http()]).toEqual(['SERVING', 200])
  })
}

test('8.2: with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED health follows what is loaded', async () => {
  const service = await startService({
    rules: { 'shop.yaml': 'domain: [' },
    env: { HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' },
  })
  const health = observe(service)
  const watch = health.watch('ratelimit')
  const file = join(service.rulesDirectory, 'shop.yaml')
  expect(await told(watch)).toBe('NOT_SERVING')
  await health.isServing(false)
  writeFileSync(file, RULES)
  expect(await told(watch)).toBe('SERVING')
  await health.isServing(true)
  writeFileSync(file, 'domain: [')
  await eventually(async () => service.log.split('Error loading new configuration').length > 2)
  await health.isServing(true) // a failed load changes nothing, but is told
  const report = async () => (await fetch(`${service.http}/healthcheck?verbose`)).text()
  await expect
    .poll(report)
    .toMatch(/^sigterm: ok\nconfig: ok\nrules: in force since .+Z\nlast load: failed at .+Z; /)
  rmSync(file)
  expect(await told(watch)).toBe('NOT_SERVING')
  await health.isServing(false)
  await expect
    .poll(report)
    .toMatch(/^sigterm: ok\nconfig: failing\nrules: in force since .+Z\nlast load: ok\n$/)
})

test('5.5: Check and List are counted, Watch and reflection are not', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES } })
  const health = observe(service)
  await health.check('ratelimit')
  await expect(health.check('nope')).rejects.toMatchObject({ code: status.NOT_FOUND })
  await told(health.watch('ratelimit'))
  const stats = await service.stats()
  expect(stats['ratelimit_server.Check.total_requests']).toBe(2)
  expect(Object.keys(stats).filter((name) => name.includes('Watch'))).toEqual([])
})

/** Polls until true; a rejection counts as false. Fails after 10 s. */
async function eventually(check: () => Promise<boolean>): Promise<void> {
  const until = Date.now() + 10_000
  while (!(await check().catch(() => false))) {
    if (Date.now() > until) throw new Error('it did not come true within 10 s')
    await sleep(20)
  }
}
