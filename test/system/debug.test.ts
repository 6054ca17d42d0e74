/**
 * The debug port of a whole service (spec 6.5): profiles of every thread under load, read by the tool operators read them
 * with. What the port says in each case is tested in test/transports/debug.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { Profile } from 'pprof-format'
import { expect, onTestFinished, test } from 'vitest'
import { formatRules } from '../../bench/load/requests.ts'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { needsGo, pprof } from '../helpers/pprof.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, startService } from '../helpers/service.ts'

const LOAD = fileURLToPath(new URL('../../bench/load/main.ts', import.meta.url))
interface TraceEvent {
  name: string
  tid: number
  args: { name?: string }
}

const LOAD_RULES = formatRules('load')

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
`

/** Until the test ends. Resolves when it has begun. */
async function load(service: RunningService): Promise<void> {
  const endpoint = `grpc://${service.address('gRPC')}`
  const child = spawn(process.execPath, [LOAD, endpoint, '--warmup', '0s', '--duration', '30s'])
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child.stderr, 'data')
}

async function get(service: RunningService, path: string): Promise<Uint8Array> {
  const response = await fetch(service.debug + path)
  if (!response.ok) throw new Error(await response.text())
  return new Uint8Array(await response.arrayBuffer())
}

async function getText(service: RunningService, path: string): Promise<string> {
  return Buffer.from(await get(service, path)).toString()
}

function decoded(profile: ArrayBuffer | Uint8Array): Profile {
  return Profile.decode(gunzipSync(profile))
}

function threadsOf({ sample, stringTable }: Profile): Set<string> {
  return new Set(sample.map(({ label }) => stringTable.strings[Number(label[0].str)]))
}

test('6.5#3: `go tool pprof` shows our functions in the CPU and the heap profile of a loaded service', async (context) => {
  needsGo(context)
  const service = await startService({ rules: { 'load.yaml': LOAD_RULES }, env: { WORKERS: '2' } })
  await load(service)
  const cpu = await get(service, '/debug/pprof/profile?seconds=1')
  const everyThread = expect.arrayContaining(['main', 'worker 0', 'worker 1'])
  let heap: Uint8Array = new Uint8Array()
  const sampledThreads = async () => {
    // one allocation in 128 KiB is a sample, so a second may have none of a thread
    heap = await get(service, '/debug/pprof/heap?seconds=1')
    return [...threadsOf(decoded(heap))]
  }
  expect([...threadsOf(decoded(cpu))]).toEqual(expect.arrayContaining(['worker 0', 'worker 1']))
  await expect.poll(sampledThreads, { timeout: 20_000 }).toEqual(everyThread)
  const top = (profile: Uint8Array) => pprof(profile, '-top', '-cum', '-filefunctions')
  const ours = (name: string, file: string) => new RegExp(`\\s${name} .*/${file}$`, 'm')
  const cpuTop = await top(cpu)
  expect(cpuTop).toMatch(/^Type: wall$/m)
  expect(cpuTop).toMatch(ours('acceptParts', 'engine/decision/engine.ts'))
  expect(cpuTop).toMatch(ours('flush', 'transports/grpc/http2/[\\w-]+.ts'))
  const heapTop = await top(heap)
  expect(heapTop).toMatch(/^Type: inuse_space$/m)
  expect(heapTop).toMatch(ours('\\w+', 'engine/[\\w/-]+.ts'))
  expect(heapTop).toMatch(ours('\\w+', 'transports/grpc/http2/[\\w-]+.ts'))
})

test('6.5#3: while Redis counts: a trace with the names of threads; connections, and how fast Redis answers each', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const env = { REDIS_URL: redis.address, REDIS_SOCKET_TYPE: 'tcp', WORKERS: '2' }
  const service = await startService({ rules: { 'load.yaml': LOAD_RULES }, env })
  await load(service)
  const paths = ['/debug/pprof/trace?seconds=1', '/debug/threads']
  const [trace, threads] = await Promise.all(paths.map((path) => getText(service, path)))

  const events: TraceEvent[] = JSON.parse(trace).traceEvents
  const names = events.filter(({ name }) => name === 'thread_name').map(({ tid, args }) => [tid, args.name])
  const turns = events.filter(({ name }) => name === 'RunAndClearNativeImmediates')
  const busy = new Set(turns.map(({ tid }) => Object.fromEntries(names)[tid]))
  expect([...busy].sort()).toEqual(['main', 'worker 0', 'worker 1'])

  const parts = threads.split('\n\n')
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

test('6.5: the threads of the monitor are there, too', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-debug-'))
  writeFileSync(join(folder, 'catalogue.yaml'), 'sites: []\n')
  const service = spawnMonitor({ folder, rules: quotas() })
  onTestFinished(async () => {
    await service.stop()
    rmSync(folder, { recursive: true })
  })
  await service.logged(MONITOR_LISTENS)
  const names = expect.arrayContaining(['main', 'monitor', 'monitor prober', 'monitor writer', 'worker 0'])
  const named = async () => (await getText(service, '/debug/threads')).match(/^\w.*?(?= {2})/gm)
  await expect.poll(named, { timeout: 10_000 }).toEqual(names) // the prober starts last
})

test('6.5#3: a worker that dies while it is looked at is named as missing; its replacement answers', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { WORKERS: '2' } })
  const asked = [0, 1].map(() => fetch(`${service.debug}/debug/pprof/heap?seconds=1`))
  expect((await Promise.race(asked)).status).toBe(409) // so the other one runs
  service.child.send({ crashWorker: 1 })
  const profile = (await Promise.all(asked)).find(({ ok }) => ok)!
  const broken = decoded(await profile.arrayBuffer())
  const comments = broken.comment.map((index) => broken.stringTable.strings[Number(index)])
  expect(comments).toEqual([expect.stringMatching(/^missing: worker 1: (no response|replaced meanwhile)$/)])
  expect([...threadsOf(broken)].sort()).toEqual(['main', 'worker 0'])
  await expect.poll(() => getText(service, '/debug/threads'), { timeout: 10_000 }).toContain('worker 1  ')
})

test('6.5#4 6.5#5: /rlconfig says what a failed reload said, until one succeeds; /stats has what rules counted', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES } })
  for (let i = 0; i < 5; i++) await postJson(service, ask())
  const total = 'ratelimit.service.rate_limit.shop.user.total_hits'
  expect(await getText(service, '/stats')).toMatch(new RegExp(`^${total}: 5$`, 'm'))
  expect(JSON.parse(await getText(service, '/stats?format=json'))).toMatchObject({ [total]: 5 })

  const line = 'shop.user: unit=YEAR requests_per_unit=3, shadow_mode: false, quota_mode: false\n'
  expect(await getText(service, '/rlconfig')).toBe(line)
  const file = join(service.rulesDirectory, 'shop.yaml')
  writeFileSync(file, RULES.replace('year', 'hours'))
  await service.logged('Error loading new configuration')
  const text = await getText(service, '/rlconfig')
  expect(text).toMatch(/^# the last load failed: shop\.yaml.*hours.*\n/)
  expect(text.endsWith(`\n${line}`)).toBe(true)
  writeFileSync(file, RULES)
  await expect.poll(() => getText(service, '/rlconfig')).toBe(line)
})

test('6.5: open to strangers without a token is one warning at the start; with DEBUG_TOKEN nobody enters without', async () => {
  const rules = { 'shop.yaml': RULES }
  const open = await startService({ rules, env: { DEBUG_HOST: '0.0.0.0' } })
  expect(open.log.split('DEBUG_TOKEN')).toHaveLength(2)
  const closed = await startService({ rules, env: { DEBUG_HOST: '0.0.0.0', DEBUG_TOKEN: 'sesame' } })
  expect(closed.log).not.toContain('DEBUG_TOKEN')
  expect(closed.log).not.toContain('sesame')
  expect((await fetch(`${closed.debug}/stats`)).status).toBe(401)
  expect((await fetch(`${closed.debug}/stats?token=sesame`)).status).toBe(200)
})

test('6.5: without a token, other names than its own need DEBUG_ALLOWED_HOSTS', async () => {
  const env = { DEBUG_ALLOWED_HOSTS: 'debug.example.org, other.example.org' }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env })
  const statusBy = async (host: string): Promise<number> => {
    const asked = request(`${service.debug}/stats`, { headers: { host } }).end()
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode!
  }
  const hosts = ['evil.example', 'other.example.org', 'ratelimit:6070', `${hostname()}:6070`, '127.0.0.1']
  expect(await Promise.all(hosts.map(statusBy))).toEqual([421, 200, 200, 200, 200])
})

function ask() {
  return { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
}
