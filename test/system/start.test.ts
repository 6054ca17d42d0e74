/** The steps of a start, what it waits for and what it logs when it fails (spec 8.1). */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import {
  postJson,
  type RunningService,
  type ServiceOptions,
  spawnService,
  startService,
} from '../helpers/service.ts'
import { startSharedService } from '../helpers/shared.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const RULES = { 'shop.yaml': 'domain: shop\n' }

/** Does not wait for its ports; the service is stopped after the test. */
function spawn(options: ServiceOptions): RunningService {
  const service = spawnService(options)
  onTestFinished(async () => {
    await service.stop('SIGKILL')
  })
  return service
}

test('8.1#2-3 8.1#8: a start logs each step, once and in order', async () => {
  const service = await startService({ rules: RULES, env: { LOG_LEVEL: 'info', BACKEND_TYPE: 'memory' } })
  const messages = service.log.matchAll(/ msg="(.+)"\n/g)
  const address = / on '127\.0\.0\.1:\d+'$/
  expect([...messages].map(([, message]) => message.replace(address, ''))).toEqual([
    'Stats disabled',
    'Tracing disabled',
    'Waiting for initial ratelimit config update event',
    'Successfully loaded new configuration',
    'Successfully loaded the initial ratelimit configs',
    'Listening for debug',
    'Listening for gRPC',
    'Listening for HTTP',
  ])
})

// biome-ignore format: a table
const sinks: [sink: string, env: Record<string, string>][] = [
  ['statsd',     { STATSD_PORT: '1' }],
  ['dogstatsd',  { USE_STATSD: 'false', USE_DOG_STATSD: 'true' }],
  ['Prometheus', { USE_STATSD: 'false', USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: '127.0.0.1:0' }],
  ['stdout',     { USE_STATSD: 'false' }],
]

test('8.1#2: the log says where statistics go and how often', async () => {
  const common = { DISABLE_STATS: 'false', STATS_FLUSH_INTERVAL: '1h', LOG_LEVEL: 'info' }
  const starts = sinks.map(([, env]) => startService({ rules: RULES, env: { ...common, ...env } }))
  for (const [i, { log }] of (await Promise.all(starts)).entries()) {
    expect(log).toContain(`Stats initialized for ${sinks[i][0]}`)
    expect(log).toContain('Stats flush interval: ')
  }
})

test('12#2: a first load that fails is not logged as a success', async () => {
  const service = await startService({ rules: { 'shop.yaml': 'domain: [' }, env: { LOG_LEVEL: 'info' } })
  expect(service.log).toContain('Waiting for initial ratelimit config update event')
  expect(service.log).not.toContain('Successfully')
})

test('8.1#5-6: no port is open until Redis is there, though the rules are loaded', async () => {
  const port = await freePort()
  const [http, grpc, debug] = [await freePort(), await freePort(), await freePort()]
  const ports = { PORT: `${http}`, GRPC_PORT: `${grpc}`, DEBUG_PORT: `${debug}` }
  const env = { ...ports, REDIS_URL: `127.0.0.1:${port}`, REDIS_STARTUP_INITIAL_INTERVAL: '20ms' }
  const service = spawn({ rules: RULES, env: { ...env, LOG_LEVEL: 'info' } })
  await service.logged('Retrying Redis connection')
  await service.logged('Successfully loaded new configuration')
  for (const each of [http, grpc, debug]) expect(await isListening(each)).toBe(false)
  const redis = await startRedis({ port })
  onTestFinished(() => redis.stop())
  await service.logged("Listening for HTTP on '")
  for (const each of [http, grpc, debug]) expect(await isListening(each)).toBe(true)
})

test('8.4#8, 8.1: a missing directory of rules ends the start, also when the start need not or cannot go on', async () => {
  const envs: Record<string, string>[] = [
    { FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' },
    { REDIS_URL: '127.0.0.1:1' },
  ]
  for (const { code, log } of await Promise.all(envs.map((env) => spawn({ env }).exited))) {
    expect(code).toBe(2)
    expect(log).toContain('unable to watch file')
  }
})

test('8.1, 11.1: the cause of a failed start is logged at any LOG_LEVEL', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const env = { PORT: String(port), LOG_LEVEL: 'panic' }
  const { code, log } = await spawn({ rules: RULES, env }).exited
  expect(code).toBe(1)
  expect(log).toMatch(/^time="[^"]+" level=fatal msg="PORT=\d+: .* \[PORT_IN_USE\]"\n$/)
})

describe('with LOG_LEVEL=trace', () => {
  let service: RunningService
  beforeAll(async () => {
    service = await startSharedService({ rules: RULES, env: { LOG_LEVEL: 'trace', WORKERS: '2' } })
  })

  test('a service that counts in memory by default logs it, once', () => {
    expect(service.log.split('Counters are kept in the memory of this process')).toHaveLength(2)
  })

  test('11.1: decisions are not logged; a call that fails is', async () => {
    const before = service.log
    const client = new GrpcClient(service.address('gRPC'))
    onTestFinished(() => client.close())
    for (let i = 0; i < 20; i++) {
      await client.ask(question('shop', { user: 'alice' }))
      await postJson(service, { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'bob' }] }] })
    }
    expect((await postJson(service, '{')).status).toBe(400)
    await service.logged('error: ')
    expect(service.log.slice(before.length)).toMatch(/^time="[^"]+" level=warning msg="error: [^\n]+"\n$/)
  })
})

test('8.1: a start that fails ends with exit code 2 and its cause as the last line', async () => {
  const statsd = { STATSD_HOST: '127.0.0.1', STATSD_PORT: '1', DISABLE_STATS: 'false' } // its absence is logged, too
  // biome-ignore format: the columns are the specification
  const cases: [env: Record<string, string>, cause: RegExp][] = [
    [{ REDIS_URL: 'nowhere', REDIS_SOCKET_TYPE: 'tcp' },     /^REDIS_URL \\"nowhere\\": it is not host:port\. .*\[REDIS_URL_INVALID\]$/],
    [{ KVSTORE_URL: 'nowhere', KVSTORE_SOCKET_TYPE: 'tcp' }, /^KVSTORE_URL \\"nowhere\\": .* a path with KVSTORE_SOCKET_TYPE=unix\. /],
    [{ KVSTORE_URL: 'rediss://host:1' },                     /^KVSTORE_URL \\"rediss:.* set REDIS_TLS=true\. \[REDIS_URL_SCHEME\]$/],
    [{ REDIS_URL: '127.0.0.1:1', REDIS_STARTUP_MAX_ELAPSED_TIME: '1ms' }, /^timed out waiting for Redis connection to 127\.0\.0\.1:1 /],
    [{ USE_PUSH_STATS: 'true', USE_PULLMETRICS: 'true', PULLMETRICS_ADDR: '127.0.0.1:0' },
                                                             /^Error: unable to use more .* USE_PUSH_STATS and USE_PULLMETRICS are true: set all but one/],
  ]
  const exits = await Promise.all(
    cases.map(([env]) => spawn({ rules: RULES, env: { ...statsd, ...env } }).exited),
  )
  for (const [i, [env, cause]] of cases.entries()) {
    const lastLine = exits[i].log.trimEnd().split('\n').at(-1)!
    expect(/^time="[^"]+" level=fatal msg="(.*)"$/.exec(lastLine)?.[1], JSON.stringify(env)).toMatch(cause)
    expect(exits[i].code).toBe(2)
  }
})

test('the example says in one line what it changes beyond its rules, and how to run in production', async () => {
  const data = makeTemporaryFolder()
  const address = `127.0.0.1:${await freePort()}`
  const service = await startService({
    args: ['serve', '--example'],
    env: { BACKEND_TYPE: 'memory', MONITOR_ADDR: address, MONITOR_DATA_DIR: data, PROBER_ENABLED: 'false' },
    rules: RULES,
  })
  const lines = service.log.split('\n').filter((line) => line.includes('This is the example'))
  expect(lines).toEqual([
    expect.stringMatching(
      ` level=warning msg="This is the example \\(serve --example\\): it opens the monitor on ${address} .* and sends no ` +
        'statistics .* In production run `sluice serve`\\."',
    ),
  ])
})

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
