/**
 * The debug port of a whole service (spec 6.5): profiles of every thread under load, read with `go tool pprof`, as operators
 * read them. test/transports/debug tests the responses of the port one by one.
 *
 * Most tests use one service, in order: under load first, and a worker of it dies last.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { Profile } from 'pprof-format'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { formatRules } from '../../bench/load/requests.ts'
import { eventually } from '../helpers/eventually.ts'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { needsGo, pprof } from '../helpers/pprof.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const LOAD = fileURLToPath(new URL('../../bench/load/main.ts', import.meta.url))
const WAIT = { timeout: 20_000 }

interface TraceEvent {
  name: string
  tid: number
  args: { name?: string }
}

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
`

const ALICE = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

let redis: RedisServer
let service: RunningService

beforeAll(async () => {
  redis = await startRedis()
  service = spawnService({
    rules: { 'load.yaml': formatRules('load'), 'shop.yaml': RULES },
    env: {
      ...{ REDIS_URL: redis.address, REDIS_SOCKET_TYPE: 'tcp', WORKERS: '2' },
      DEBUG_ALLOWED_HOSTS: 'debug.example.org, other.example.org',
    },
  })
  await service.logged("Listening for HTTP on '")
})
afterAll(async () => {
  await service?.stop('SIGKILL')
  await redis.stop()
})

async function get(service: RunningService, path: string): Promise<Uint8Array> {
  const response = await fetch(service.debug + path)
  if (!response.ok) throw new Error(await response.text())
  return new Uint8Array(await response.arrayBuffer())
}

async function getText(service: RunningService, path: string): Promise<string> {
  return Buffer.from(await get(service, path)).toString()
}

function decode(profile: ArrayBuffer | Uint8Array): Profile {
  return Profile.decode(gunzipSync(profile))
}

function getThreads({ sample, stringTable }: Profile): Set<string> {
  return new Set(sample.map(({ label }) => stringTable.strings[Number(label[0].str)]))
}

describe('under load', () => {
  let load: ChildProcess

  beforeAll(async () => {
    const endpoint = `grpc://${service.address('gRPC')}`
    load = spawn(process.execPath, [LOAD, endpoint, '--warmup', '0s', '--duration', '10m'])
    await once(load.stderr!, 'data') // it has begun
  })
  afterAll(() => void load.kill('SIGKILL'))

  test('6.5#3: `go tool pprof` shows the functions of Sluice in a CPU and a heap profile', async (context) => {
    needsGo(context)
    const top = (profile: Uint8Array) => pprof(profile, '-top', '-cum', '-filefunctions')
    const row = (file: string) => new RegExp(`\\s[\\w.]+ .*/${file}$`, 'm')
    // On a busy machine a second may have no sample of a thread, or of a function: it is taken again.
    const expectProfile = (path: string, type: RegExp, threads: string[]) =>
      eventually(async () => {
        const profile = await get(service, path)
        expect([...getThreads(decode(profile))]).toEqual(expect.arrayContaining(threads))
        const text = await top(profile)
        expect(text).toMatch(type)
        expect(text).toMatch(row('engine/[\\w/-]+.[jt]s'))
        expect(text).toMatch(row('transports/grpc/http2/[\\w-]+.[jt]s'))
      })
    const workers = ['worker 0', 'worker 1']
    await expectProfile('/debug/pprof/profile?seconds=1', /^Type: wall$/m, workers)
    await expectProfile('/debug/pprof/heap?seconds=1', /^Type: inuse_space$/m, ['main', ...workers])
  })

  test('6.5#3: a trace has the names of the threads', async () => {
    const events: TraceEvent[] = JSON.parse(
      await getText(service, '/debug/pprof/trace?seconds=1'),
    ).traceEvents
    const names = events.filter(({ name }) => name === 'thread_name').map(({ tid, args }) => [tid, args.name])
    const turns = events.filter(({ name }) => name === 'RunAndClearNativeImmediates')
    const busy = new Set(turns.map(({ tid }) => Object.fromEntries(names)[tid]))
    expect([...busy].sort()).toEqual(['main', 'worker 0', 'worker 1'])
  })

  test('6.5#3: /debug/threads has the connections of each thread, and how fast Redis responds to it', async () => {
    const parts = (await getText(service, '/debug/threads')).split('\n\n')
    expect(parts.map((part) => part.split('  ')[0])).toEqual(['main', 'worker 0', 'worker 1'])
    const connections = parts
      .slice(1)
      .map((part) => Number(/ gRPC +(\d+) connections, \d+ calls/.exec(part)?.[1]))
    expect(connections[0] + connections[1]).toBe(4)
    for (const part of parts.slice(1)) {
      expect(part).toMatch(/^ {2}Redis +\d+ batches in flight/m)
      expect(part).toMatch(new RegExp(`^ {2}Redis PING +${redis.address}: \\d+\\.\\d\\d ms$`, 'm'))
    }
  })
})

test('6.5#4 6.5#5: /rlconfig has the error of a failed reload until one succeeds; /stats has the counters of rules', async () => {
  for (let i = 0; i < 5; i++) await postJson(service, ALICE)
  const total = 'ratelimit.service.rate_limit.shop.user.total_hits'
  expect(await getText(service, '/stats')).toMatch(new RegExp(`^${total}: 5$`, 'm'))
  expect(JSON.parse(await getText(service, '/stats?format=json'))).toMatchObject({ [total]: 5 })

  const line = 'shop.user: unit=YEAR requests_per_unit=3, shadow_mode: false, quota_mode: false\n'
  const getShopRules = async () => (await getText(service, '/rlconfig')).replaceAll(/^load\..*\n/gm, '') // without those of the load
  expect(await getShopRules()).toBe(line)
  const file = join(service.rulesDirectory, 'shop.yaml')
  writeFileSync(file, RULES.replace('year', 'hours'))
  await service.logged('Error loading new configuration')
  const text = await getShopRules()
  expect(text).toMatch(/^# the last load failed: shop\.yaml.*hours.*\n/)
  expect(text.endsWith(`\n${line}`)).toBe(true)
  writeFileSync(file, RULES)
  await expect.poll(getShopRules, WAIT).toBe(line)
})

test('6.5: without a token, host names other than its own need DEBUG_ALLOWED_HOSTS', async () => {
  const getStatus = async (host: string): Promise<number> => {
    const sent = request(`${service.debug}/stats`, { headers: { host } }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode!
  }
  const hosts = ['evil.example', 'other.example.org', 'ratelimit:6070', `${hostname()}:6070`, '127.0.0.1']
  expect(await Promise.all(hosts.map(getStatus))).toEqual([421, 200, 200, 200, 200])
})

test('6.5: /debug/threads has the threads of the monitor, too', async () => {
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'catalogue.yaml'), 'sites: []\n')
  const service = spawnMonitor({ folder, rules: quotas() })
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged(MONITOR_LISTENS)
  const names = expect.arrayContaining(['main', 'monitor', 'monitor prober', 'monitor writer', 'worker 0'])
  const named = async () => (await getText(service, '/debug/threads')).match(/^\w.*?(?= {2})/gm)
  await expect.poll(named, WAIT).toEqual(names) // the prober starts last
})

test('6.5: a port open to other hosts without a token is one warning at the start; with DEBUG_TOKEN each request needs it', async () => {
  const rules = { 'shop.yaml': RULES }
  const open = await startService({ rules, env: { DEBUG_HOST: '0.0.0.0' } })
  expect(open.log.split('DEBUG_TOKEN')).toHaveLength(2)
  const closed = await startService({ rules, env: { DEBUG_HOST: '0.0.0.0', DEBUG_TOKEN: 'sesame' } })
  expect(closed.log).not.toContain('DEBUG_TOKEN')
  expect(closed.log).not.toContain('sesame')
  expect((await fetch(`${closed.debug}/stats`)).status).toBe(401)
  expect((await fetch(`${closed.debug}/stats?token=sesame`)).status).toBe(200)
})

test('6.5#3: a worker that dies during a profile is named as missing; its replacement is profiled again', async () => {
  const responses = [0, 1].map(() => fetch(`${service.debug}/debug/pprof/heap?seconds=1`))
  expect((await Promise.race(responses)).status).toBe(409) // so the other one runs
  service.child.send({ crashWorker: 1 })
  const profile = (await Promise.all(responses)).find(({ ok }) => ok)!
  const broken = decode(await profile.arrayBuffer())
  const comments = broken.comment.map((index) => broken.stringTable.strings[Number(index)])
  expect(comments).toEqual([expect.stringMatching(/^missing: worker 1: (no response|replaced meanwhile)$/)])
  expect(getThreads(broken)).not.toContain('worker 1')
  await expect.poll(() => getText(service, '/debug/threads'), WAIT).toContain('worker 1  ')
})
