import { once } from 'node:events'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { startTcpProxy } from '../helpers/tcp-proxy.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1000000 }
`
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

test('a worker that throws is replaced, the others keep answering, and its statistics are kept', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { WORKERS: '2' } })
  let asked = 0
  const ask = async () => {
    const response = await postJson(service, USER)
    asked++
    return response.status
  }
  for (let i = 0; i < 20; i++) expect(await ask()).toBe(200)
  service.child.send({ crashWorker: 0 })
  await service.logged('worker 0 ended: Error: crash requested')
  // connections of the dead worker break and fetch opens new ones; no new connection may fail
  await settled(service)
  for (let i = 0; i < 40; i++) expect(await ask()).toBe(200)
  const stats = await service.stats()
  expect(stats['ratelimit.service.rate_limit.shop.user.within_limit']).toBe(asked)
  service.child.send({ crashWorker: 1 })
  await service.logged('worker 1 ended: Error: crash requested')
  await settled(service)
  expect(await ask()).toBe(200)
  expect((await service.stop()).code).toBe(0)
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
    await loggedTimes(service, 'worker 0 ended', crash)
    if (crash < 6) await settled(service)
  }
  const { code, log } = await service.exited
  expect(log).toMatch(/ level=fatal msg="worker 0 ended: .*; not starting it again"\n/) // at any LOG_LEVEL (11.1)
  expect(code).toBe(1)
})

test('a worker that cannot start ends the process with exit code 1, soon', async () => {
  const broken = 'if (!isMainThread) process.on = () => { throw new TypeError("made to fail") }'
  const preloaded = encodeURIComponent(`import { isMainThread } from 'node:worker_threads'; ${broken}`)
  const service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { WORKERS: '2', NODE_OPTIONS: `--import=data:text/javascript,${preloaded}` },
  })
  await service.logged('TypeError: made to fail')
  const saidMs = performance.now()
  expect(await service.exited).toMatchObject({ code: 1, signal: null })
  expect(performance.now() - saidMs).toBeLessThan(4_000) // the last resort, ending it by force, comes after five seconds
})

test('8.3#3 12#36: SIGTERM answers running requests, fails health first, then exits 0', async () => {
  const redis = await startRedis()
  const proxy = await startTcpProxy(redis.port)
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `127.0.0.1:${proxy.port}`, DRAIN_DELAY: '300ms' },
  })
  const client = new GrpcClient(service.address('gRPC'))
  await client.ask(question('shop', { user: 'warm' }))
  proxy.stall()
  const running = [client.ask(question('shop', { user: 'alice' })), postJson(service, USER)]
  await sleep(50) // both wait for Redis now
  service.child.kill('SIGTERM')
  await sleep(100)
  expect((await fetch(`${service.http}/healthcheck`)).status).toBe(500) // unhealthy, and still listening
  await sleep(300) // drain has begun
  for (const port of ['HTTP', 'gRPC']) expect(await isRefused(service.address(port))).toBe(true)
  proxy.resume()
  const [overGrpc, overJson] = await Promise.all(running)
  expect(overGrpc).toMatchObject({ overallCode: 1 })
  expect(overJson).toMatchObject({ status: 200 })
  const { code, signal } = await service.stop()
  expect({ code, signal }).toEqual({ code: 0, signal: null })
  client.close()
  await proxy.stop()
  await redis.stop()
})

test('a second signal, later than one that came twice, ends it at once', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { DRAIN_DELAY: '30s', LOG_LEVEL: 'info' },
  })
  service.child.kill('SIGTERM')
  service.child.kill('SIGINT') // a terminal and a supervisor
  await service.logged('again, still shutting down')
  await sleep(1_200)
  service.child.kill('SIGINT')
  expect((await service.exited).signal).toBe('SIGKILL')
})

test('a debug port that is taken is told and left out, also when it is our own', async () => {
  const first = await startService({ rules: { 'shop.yaml': RULES } })
  const port = first.address('debug').split(':')[1]
  const second = await startService({ rules: { 'shop.yaml': RULES }, env: { DEBUG_PORT: port } })
  expect(second.log).toContain('Failed to open debug HTTP listener')
  expect(second.log).not.toContain('Listening for debug')
  const http = first.address('HTTP').split(':')[1]
  await Promise.all([first.stop(), second.stop()])
  const third = await startService({ rules: { 'shop.yaml': RULES }, env: { PORT: http, DEBUG_PORT: http } })
  expect(third.log).toContain(`DEBUG_PORT=${http}`)
  for (let i = 0; i < 20; i++) expect((await fetch(`${third.http}/stats`)).status).toBe(404)
  await third.stop()
})

test('8.3: SIGTERM cuts no busy connection that is kept alive', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { DRAIN_DELAY: '200ms' } })
  const errors: string[] = []
  let answered = 0
  const client = async () => {
    const own = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let isOpen = true; isOpen; ) {
      const outcome = await askOnce(service, own)
      if (outcome === 200) answered++
      else if (outcome !== 'not connected') errors.push(String(outcome)) // asked to go, and nobody listens any more
      isOpen = outcome === 200
    }
    own.destroy()
  }
  const clients = Array.from({ length: 15 }, client)
  await sleep(200)
  expect((await service.stop()).code).toBe(0)
  await Promise.all(clients)
  expect(errors).toEqual([])
  expect(answered).toBeGreaterThan(100)
})

for (const signal of ['SIGINT', 'SIGHUP'] as const) {
  test(`8.3#1: ${signal} ends an idle service with exit code 0`, async () => {
    const service = await startService({ rules: { 'shop.yaml': RULES } })
    expect((await service.stop(signal)).code).toBe(0)
  })
}

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

test('6.5: a debug port in use is logged and the service goes on', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { DEBUG_PORT: String(port) } })
  other.close()
  expect(service.log).toContain('Failed to open debug HTTP listener:')
  expect((await postJson(service, USER)).status).toBe(200)
})

test('8.4#8: a missing directory of rules ends the start with one clear line and exit code 2', async () => {
  const { code, log } = await spawnService({ env: { BACKEND_TYPE: 'memory' } }).exited
  expect(code).toBe(2)
  expect(log.trimEnd().split('\n')).toHaveLength(1)
  expect(log).toMatch(/unable to watch file \(.*config\): no such directory\..*RUNTIME_ROOT/)
})

test('8.4: a missing tree below a watched root is zero files: the service runs, every domain is unknown', async () => {
  const service = await startService({ env: { RUNTIME_WATCH_ROOT: 'true', RUNTIME_APPDIRECTORY: 'nowhere' } })
  expect(JSON.parse((await postJson(service, USER)).text)).toEqual({
    overallCode: 'OK',
    statuses: [{ code: 'OK' }],
  })
})

test('12#2: a broken file at start is one clear line; calls fail until it is mended, then they pass', async () => {
  const service = await startService({
    rules: { 'shop.yaml': 'domain: shop\ndescriptors:\n  - kee: user\n' },
  })
  const line = service.log.split('\n').filter((each) => each.includes('level=error'))
  expect(line).toHaveLength(1)
  expect(line[0]).toContain("Error loading new configuration: shop.yaml: config error, unknown key 'kee'")
  const client = new GrpcClient(service.address('gRPC'))
  const refused = expect.objectContaining({ code: 2, details: 'no rate limit configuration loaded' })
  await expect(client.ask(question('shop', { user: 'a' }))).rejects.toEqual(refused)
  writeFileSync(join(service.rulesDirectory, 'shop.yaml'), RULES)
  await eventually(async () => (await postJson(service, USER)).status === 200)
  expect((await client.ask(question('shop', { user: 'a' }))).overallCode).toBe(1)
  client.close()
})

test('8.4#6 8.5: changed rules are used without a restart; a broken change leaves those in force', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES } })
  const file = join(service.rulesDirectory, 'shop.yaml')
  const config = async () => (await fetch(`${service.debug}/rlconfig`)).text()
  expect(await config()).toBe(
    'shop.user: unit=YEAR requests_per_unit=1000000, shadow_mode: false, quota_mode: false\n',
  )
  writeFileSync(file, RULES.replace('1000000', '0'))
  await eventually(async () => (await postJson(service, USER)).status === 429)
  writeFileSync(file, 'domain: [')
  await service.logged('Error loading new configuration: shop.yaml: error loading config file:')
  expect((await postJson(service, USER)).status).toBe(429)
  rmSync(file)
  await eventually(async () => (await config()) === '')
  const stats = await service.stats()
  expect(stats['ratelimit.service.config_load_error']).toBe(1)
  expect(stats['ratelimit.service.config_load_success']).toBeGreaterThanOrEqual(3)
})

for (const RUNTIME_WATCH_ROOT of ['true', 'false']) {
  test(`8.4: a directory that is moved away takes no rule along, watch root ${RUNTIME_WATCH_ROOT}`, async () => {
    const service = await startService({ rules: { 'shop.yaml': RULES }, env: { RUNTIME_WATCH_ROOT } })
    const config = async () => (await fetch(`${service.debug}/rlconfig`)).text()
    renameSync(service.rulesDirectory, `${service.rulesDirectory}2`)
    await service.logged('is missing: its rules stay in force')
    expect(await config()).toContain('requests_per_unit=1000000')
    writeFileSync(join(`${service.rulesDirectory}2`, 'shop.yaml'), RULES.replace('1000000', '77'))
    renameSync(`${service.rulesDirectory}2`, service.rulesDirectory)
    await eventually(async () => (await config()).includes('requests_per_unit=77'))
  })
}

test('8.1#1 10: a bad setting ends the start with variable, value and what is allowed', async () => {
  const { code, log } = await spawnService({ rules: {}, env: { GRPC_PORT: '80801' } }).exited
  expect(code).toBe(2)
  expect(log).toContain('GRPC_PORT="80801"')
  expect(log).toContain('0 to 65535')
})

test('11.1: with LOG_FORMAT=json a bad setting is such a line, too', async () => {
  const env = { GRPC_PORT: '80801', LOG_FORMAT: 'JSON' }
  const { code, log } = await spawnService({ rules: {}, env }).exited
  expect(code).toBe(2)
  expect(JSON.parse(log)).toMatchObject({
    level: 'fatal',
    '@message': expect.stringContaining('GRPC_PORT="80801"'),
  })
})

/** One request over the agent's connection: its status, or its error's code. A new connection may be refused, or reset
 * while it waits to be accepted: then nothing was asked. */
function askOnce(service: RunningService, agent: Agent): Promise<number | string> {
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

/** Whether nobody listens there. A new connection, since those there are may go on. */
async function isRefused(address: string): Promise<boolean> {
  const [host, port] = address.split(':')
  const socket = connect(Number(port), host)
  try {
    await once(socket, 'connect')
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
  } finally {
    socket.destroy()
  }
}

/** Both workers listen again, after a crash: as many `Listening` as asked cannot be seen, so ask until it holds. */
async function settled(service: RunningService): Promise<void> {
  await eventually(async () => (await fetch(`${service.http}/healthcheck`)).status === 200)
}

async function loggedTimes(service: RunningService, text: string, times: number): Promise<void> {
  await eventually(async () => service.log.split(text).length - 1 >= times)
}

/** Polls until true; a rejection counts as false. Fails after 10 s. */
async function eventually(check: () => Promise<boolean>): Promise<void> {
  const until = Date.now() + 10_000
  while (!(await check().catch(() => false))) {
    if (Date.now() > until) throw new Error('it did not come true within 10 s')
    await sleep(20)
  }
}
