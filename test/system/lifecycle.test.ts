/** The life of the whole service: start, crashes of workers, rule files that change, shutdown. */
import { once } from 'node:events'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import { isRefused } from '../helpers/refused.ts'
import {
  postJson,
  type RunningService,
  type ServiceOptions,
  spawnService,
  startService,
} from '../helpers/service.ts'
import { startTcpProxy } from '../helpers/tcp-proxy.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1000000 }
`
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
const CONNECTIONS = 15

/** One service for the tests of a `describe`, in their order. */
function shareService(options: ServiceOptions): () => RunningService {
  let service: RunningService
  beforeAll(async () => {
    service = spawnService(options)
    await service.logged("Listening for HTTP on '")
    return () => service.stop('SIGKILL').then(() => {})
  })
  return () => service
}

describe('two workers', () => {
  const getService = shareService({
    rules: { 'shop.yaml': RULES },
    env: { WORKERS: '2', DRAIN_DELAY: '200ms' },
  })

  test('a worker that throws is replaced, the others keep responding, and its statistics are kept', async () => {
    const service = getService()
    let count = 0
    const expectOk = async () => {
      expect((await postJson(service, USER)).status).toBe(200)
      count++
    }
    for (let i = 0; i < 20; i++) await expectOk()
    service.child.send({ crashWorker: 0 })
    await service.logged('worker 0 ended: Error: crash requested')
    // connections of the dead worker break and fetch opens new ones; no new connection may fail
    await becomesHealthy(service)
    for (let i = 0; i < 40; i++) await expectOk()
    const stats = await service.stats()
    expect(stats['ratelimit.service.rate_limit.shop.user.within_limit']).toBe(count)
    service.child.send({ crashWorker: 1 })
    await service.logged('worker 1 ended: Error: crash requested')
    await becomesHealthy(service)
    await expectOk()
  })

  test('8.3: SIGTERM cuts no busy connection that is kept alive, and ends with exit code 0', async () => {
    const service = getService()
    const errors: string[] = []
    let okCount = 0
    const runClient = async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      for (let isOpen = true; isOpen; ) {
        const outcome = await sendOne(service, agent)
        if (outcome === 200) okCount++
        else if (outcome !== 'not connected') errors.push(String(outcome)) // asked to close, and the port is closed
        isOpen = outcome === 200
      }
      agent.destroy()
    }
    const clients = Array.from({ length: CONNECTIONS }, runClient)
    await eventually(() => expect(okCount).toBeGreaterThan(10 * CONNECTIONS))
    expect((await service.stop()).code).toBe(0)
    await Promise.all(clients)
    expect(errors).toEqual([])
  })
})

describe('a rule file', () => {
  const getService = shareService({
    rules: { 'shop.yaml': 'domain: shop\ndescriptors:\n  - kee: user\n' },
    env: { RUNTIME_WATCH_ROOT: 'false' },
  })
  const getRules = async () => (await fetch(`${getService().debug}/rlconfig`)).text()

  test('12#2: broken at the start: one clear line; calls fail until it is repaired, then they pass', async () => {
    const service = getService()
    const lines = service.log.split('\n').filter((line) => line.includes('level=error'))
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain("Error loading new configuration: shop.yaml: config error, unknown key 'kee'")
    const client = new GrpcClient(service.address('gRPC'))
    onTestFinished(() => client.close())
    const refused = expect.objectContaining({ code: 2, details: 'no rate limit configuration loaded' })
    await expect(client.ask(question('shop', { user: 'a' }))).rejects.toEqual(refused)
    writeFileSync(join(service.rulesDirectory, 'shop.yaml'), RULES)
    await eventually(async () => expect((await postJson(service, USER)).status).toBe(200))
    expect((await client.ask(question('shop', { user: 'a' }))).overallCode).toBe(1)
  })

  test('8.4: in a directory that is moved away: its rules stay in force, watch root false', () =>
    expectRulesOutliveMove(getService()))

  test('8.4#6 8.5: changed: used without a restart; broken or removed: as specified', async () => {
    const service = getService()
    const errorsBefore = (await service.stats())['ratelimit.service.config_load_error']
    const successesBefore = (await service.stats())['ratelimit.service.config_load_success']
    const file = join(service.rulesDirectory, 'shop.yaml')
    writeFileSync(file, RULES)
    const line = 'shop.user: unit=YEAR requests_per_unit=1000000, shadow_mode: false, quota_mode: false\n'
    await eventually(async () => expect(await getRules()).toBe(line))
    writeFileSync(file, RULES.replace('1000000', '0'))
    await eventually(async () => expect((await postJson(service, USER)).status).toBe(429))
    writeFileSync(file, 'domain: [')
    await service.logged('Error loading new configuration: shop.yaml: error loading config file:')
    expect((await postJson(service, USER)).status).toBe(429)
    rmSync(file)
    await eventually(async () => expect(await getRules()).toBe(''))
    const stats = await service.stats()
    expect(stats['ratelimit.service.config_load_error']).toBe(errorsBefore + 1)
    expect(stats['ratelimit.service.config_load_success']).toBeGreaterThanOrEqual(successesBefore + 3)
  })

  test('8.3#1: SIGHUP ends an idle service with exit code 0', async () => {
    expect((await getService().stop('SIGHUP')).code).toBe(0)
  })
})

test('8.4, 8.3#1: a directory that is moved away, watch root true; SIGINT ends with exit code 0', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { RUNTIME_WATCH_ROOT: 'true' },
  })
  await expectRulesOutliveMove(service)
  expect((await service.stop('SIGINT')).code).toBe(0)
})

/** The rules of a directory that is moved away stay in force, and are read again when it is back. */
async function expectRulesOutliveMove(service: RunningService): Promise<void> {
  const getRules = async () => (await fetch(`${service.debug}/rlconfig`)).text()
  renameSync(service.rulesDirectory, `${service.rulesDirectory}2`)
  await service.logged('is missing: its rules stay in force')
  expect(await getRules()).toContain('requests_per_unit=1000000')
  writeFileSync(join(`${service.rulesDirectory}2`, 'shop.yaml'), RULES.replace('1000000', '77'))
  renameSync(`${service.rulesDirectory}2`, service.rulesDirectory)
  await eventually(async () => expect(await getRules()).toContain('requests_per_unit=77'))
}

describe('a missing tree below a watched root', () => {
  const getService = shareService({
    env: {
      ...{ RUNTIME_WATCH_ROOT: 'true', RUNTIME_APPDIRECTORY: 'nowhere' },
      ...{ DRAIN_DELAY: '10m', LOG_LEVEL: 'info' },
    },
  })

  test('8.4: is zero files: the service runs, every domain is unknown', async () => {
    expect(JSON.parse((await postJson(getService(), USER)).text)).toEqual({
      overallCode: 'OK',
      statuses: [{ code: 'OK' }],
    })
  })

  test('a second signal during shutdown, later than one that came twice, ends the process at once', async () => {
    const { child, exited } = getService()
    child.kill('SIGTERM')
    child.kill('SIGINT') // a terminal and a supervisor
    await getService().logged('again, still shutting down')
    while (child.signalCode === null) {
      child.kill('SIGINT') // within a second of the first it is taken for the same signal
      await sleep(50)
    }
    expect((await exited).signal).toBe('SIGKILL')
  })
})

test('SIGTERM while a new worker waits for Redis ends the process', async () => {
  const redis = await startRedis()
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { WORKERS: '2', REDIS_URL: redis.address, REDIS_STARTUP_INITIAL_INTERVAL: '20ms' },
  })
  await redis.stop()
  service.child.send({ crashWorker: 0 })
  await service.logged('Retrying Redis connection')
  service.child.kill('SIGTERM')
  expect(await service.exited).toMatchObject({ code: 0, signal: null })
  expect(service.log).not.toContain('level=fatal')
})

test('a worker that keeps throwing ends the process with exit code 1', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES } })
  for (let crash = 1; crash <= 6; crash++) {
    service.child.send({ crashWorker: 0 })
    await eventually(() => expect(service.log.split('worker 0 ended')).toHaveLength(crash + 1))
    if (crash < 6) await becomesHealthy(service)
  }
  const { code, log } = await service.exited
  expect(log).toMatch(/ level=fatal msg="worker 0 ended: .*; not starting it again"\n/) // at any LOG_LEVEL (11.1)
  expect(code).toBe(1)
})

test('a worker that cannot start ends the process with exit code 1, without the last resort', async () => {
  const broken = 'process.on = () => { throw new TypeError("made to fail") }'
  const forced = 'process.stderr.write("ended by force\\n")' // the last resort, five seconds after the shutdown
  const watched = `const wait = setTimeout
    globalThis.setTimeout = (run, ms, ...rest) => wait(ms === 5000 ? () => { ${forced}; run() } : run, ms, ...rest)`
  const text = `import { isMainThread } from 'node:worker_threads'; if (isMainThread) { ${watched} } else { ${broken} }`
  const service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { WORKERS: '2', NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(text)}` },
  })
  expect(await service.exited).toMatchObject({ code: 1, signal: null })
  expect(service.log).toContain('TypeError: made to fail')
  expect(service.log).not.toContain('ended by force')
})

test('8.3#3 12#36: SIGTERM completes running requests, fails health first, then exits 0', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const proxy = await startTcpProxy(redis.port)
  onTestFinished(() => proxy.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `127.0.0.1:${proxy.port}`, DRAIN_DELAY: '1s', REDIS_OPERATION_TIMEOUT: '60s' },
  })
  const client = new GrpcClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  await client.ask(question('shop', { user: 'first' }))
  proxy.stall()
  const running = [client.ask(question('shop', { user: 'alice' })), postJson(service, USER)]
  const hasBoth = async () =>
    expect(Object.values(await redis.contents()).map(({ value }) => value)).toEqual(['2', '1'])
  await eventually(hasBoth) // Redis has counted both; its replies are held
  service.child.kill('SIGTERM')
  const getHealth = async () => (await fetch(`${service.http}/healthcheck`)).status
  await eventually(async () => expect(await getHealth()).toBe(500)) // unhealthy, and still listening
  for (const name of ['HTTP', 'gRPC']) {
    const port = Number(service.address(name).split(':')[1])
    await eventually(async () => expect(await isRefused(port)).toBe(true)) // the drain has begun
  }
  proxy.resume()
  const [overGrpc, overJson] = await Promise.all(running)
  expect(overGrpc).toMatchObject({ overallCode: 1 })
  expect(overJson).toMatchObject({ status: 200 })
  expect(await service.exited).toMatchObject({ code: 0, signal: null })
})

test('6.5: a debug port in use is logged, and the service runs without one', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { DEBUG_PORT: String(port) } })
  expect(service.log).toContain('Failed to open debug HTTP listener:')
  expect(service.log).not.toContain('Listening for debug')
  expect((await postJson(service, USER)).status).toBe(200)
})

test('6.5: DEBUG_PORT equal to PORT is logged, and /stats is not on PORT', async () => {
  const port = String(await freePort())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { PORT: port, DEBUG_PORT: port },
  })
  expect(service.log).toContain(`DEBUG_PORT=${port}`)
  for (let i = 0; i < 20; i++) expect((await fetch(`${service.http}/stats`)).status).toBe(404)
})

for (const variable of ['PORT', 'GRPC_PORT']) {
  test(`8.1: a ${variable} in use ends the start with one clear line and exit code 1`, async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as { port: number }
    const service = spawnService({
      rules: { 'shop.yaml': RULES },
      env: { BACKEND_TYPE: 'memory', [variable]: String(port) },
    })
    const { code, log } = await service.exited
    other.close()
    expect(code).toBe(1)
    expect(log.trimEnd().split('\n')).toHaveLength(1)
    expect(log).toContain(`${variable}=${port}: 127.0.0.1:${port} is already in use.`)
    expect(log).toContain('[PORT_IN_USE]')
  })
}

test('8.4#8: a missing directory of rules ends the start with one clear line and exit code 2', async () => {
  const { code, log } = await spawnService({ env: { BACKEND_TYPE: 'memory' } }).exited
  expect(code).toBe(2)
  expect(log.trimEnd().split('\n')).toHaveLength(1)
  expect(log).toMatch(/unable to watch file \(.*config\): no such directory\..*RUNTIME_ROOT/)
})

test('8.1#1 10: a bad setting ends the start with variable, value and what is allowed', async () => {
  const { code, log } = await spawnService({ rules: {}, env: { GRPC_PORT: '80801' } }).exited
  expect(code).toBe(2)
  expect(log).toContain('GRPC_PORT="80801"')
  expect(log).toContain('0 to 65535')
})

test('11.1: with LOG_FORMAT=json a bad setting is a JSON line', async () => {
  const env = { GRPC_PORT: '80801', LOG_FORMAT: 'JSON' }
  const { code, log } = await spawnService({ rules: {}, env }).exited
  expect(code).toBe(2)
  expect(JSON.parse(log)).toMatchObject({
    level: 'fatal',
    '@message': expect.stringContaining('GRPC_PORT="80801"'),
  })
})

/**
 * One request over the agent's connection: its status, or the code of its error. A new connection may be refused, or reset
 * while it waits to be accepted: then no request was sent.
 */
function sendOne(service: RunningService, agent: Agent): Promise<number | string> {
  return new Promise((resolve) => {
    const outgoing = request(`${service.http}/json`, { method: 'POST', agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode!))
    })
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      resolve(outgoing.reusedSocket ? (error.code ?? error.message) : 'not connected')
    })
    outgoing.end(JSON.stringify(USER))
  })
}

/** After a crash. */
async function becomesHealthy(service: RunningService): Promise<void> {
  await eventually(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(200))
}
