/**
 * Both services on one set of rules, each with Redis servers of its own.
 *
 *     rules/current ─► rules/v7/rl/config/*.yaml        one rename swaps the rules of both (spec 8.4)
 *        │      │
 *    Sluice  reference           Redis main, Redis per second: two each, compared key by key
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { spawnService } from '../helpers/service.ts'
import { type Side, startReference } from './reference.ts'

export interface Pair {
  sluice: Side
  reference: Side
  /** Counters in either Redis: `main <key>` or `persecond <key>` to value. */
  contents(side: 'sluice' | 'reference'): Promise<Map<string, string>>
  clearCounters(): Promise<void> // in all Redis servers
  /** Loads the files (name → text) into both. Resolves when both decide by them. */
  load(files: Record<string, string>): Promise<void>
  stop(): Promise<void>
}

const LOAD_MS_MAX = 60_000
const PROBES_IN_A_ROW = 6 // each on a new connection: one of two workers may load later

export async function startPair(program: string, settings: Record<string, string>): Promise<Pair> {
  const folder = new RulesFolder()
  folder.swap({ 'marker-0.yaml': markerText(0) })
  const [main, second, referenceMain, referenceSecond] = await Promise.all(
    [0, 1, 2, 3].map(() => startRedis()),
  )
  const rules = { RUNTIME_ROOT: folder.root, RUNTIME_SUBDIRECTORY: 'rl', RUNTIME_WATCH_ROOT: 'true' }
  const stopStores = () =>
    Promise.all([main, second, referenceMain, referenceSecond].map((redis) => redis.stop()))
  const started = await Promise.allSettled([
    startSluice({ ...rules, ...redisSettings(main, second), ...settings }),
    startReference(program, { ...rules, ...redisSettings(referenceMain, referenceSecond), ...settings }),
  ])
  const failed = started.find((each) => each.status === 'rejected')
  if (failed) {
    await Promise.all(started.map((each) => (each.status === 'fulfilled' ? each.value.stop() : null)))
    await stopStores()
    throw failed.reason
  }
  const [sluice, reference] = started.map((each) => (each as PromiseFulfilledResult<Side>).value)
  const stores = { sluice: [main, second], reference: [referenceMain, referenceSecond] }
  let version = 0
  return {
    sluice,
    reference,
    contents: async (side) => {
      const [mainKeys, secondKeys] = await Promise.all(stores[side].map(readValues))
      const all = new Map<string, string>()
      for (const [key, value] of mainKeys) all.set(`main ${key}`, value)
      for (const [key, value] of secondKeys) all.set(`persecond ${key}`, value)
      return all
    },
    clearCounters: async () => {
      await Promise.all([main, second, referenceMain, referenceSecond].map((redis) => redis.run('FLUSHALL')))
    },
    load: async (files) => {
      version++
      folder.swap({ ...files, [`marker-${version}.yaml`]: markerText(version) })
      await Promise.all([sluice, reference].map((side) => waitUntilLoaded(side, version)))
    },
    stop: async () => {
      await Promise.all([sluice.stop(), reference.stop()])
      await stopStores()
      folder.remove()
    },
  }
}

/** A directory of rules behind a symbolic link; a new version takes effect by one rename. */
export class RulesFolder {
  private readonly folder = mkdtempSync(join(tmpdir(), 'sluice-differential-'))
  private version = 0
  readonly root = join(this.folder, 'current')

  swap(files: Record<string, string | Uint8Array>): void {
    const last = this.version++
    const next = join(this.folder, `v${this.version}`)
    for (const [name, text] of Object.entries(files)) {
      const path = join(next, 'rl', 'config', name)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
    }
    symlinkSync(next, join(this.folder, 'next'))
    renameSync(join(this.folder, 'next'), this.root)
    if (last > 1) rmSync(join(this.folder, `v${last - 1}`), { recursive: true, force: true }) // may still be read: v<last>
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** An unlimited rule in a domain of its own: requests for it change no counter. */
function markerText(version: number): string {
  return `domain: marker-${version}\ndescriptors: [{ key: m, rate_limit: { unlimited: true } }]\n`
}

async function waitUntilLoaded(side: Side, version: number): Promise<void> {
  const body = `{"domain":"marker-${version}","descriptors":[{"entries":[{"key":"m"}]}]}`
  const until = Date.now() + LOAD_MS_MAX
  for (let row = 0; row < PROBES_IN_A_ROW; ) {
    const response = await fetch(`${side.http}/json`, {
      method: 'POST',
      body,
      headers: { connection: 'close' },
    })
    row = (await response.text()).includes('4294967295') ? row + 1 : 0
    if (row === 0) await sleep(10)
    if (Date.now() > until)
      throw new Error(`${side.name} did not load the rules:\n${side.log().slice(-2_000)}`)
  }
}

function redisSettings(main: RedisServer, second: RedisServer): Record<string, string> {
  return {
    BACKEND_TYPE: 'redis',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: main.address,
    REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
    REDIS_PERSECOND_URL: second.address,
  }
}

async function startSluice(env: Record<string, string>): Promise<Side> {
  const service = spawnService({ env: { LOG_LEVEL: 'info', LOG_FORMAT: 'json', ...env } })
  await service.logged("Listening for HTTP on '")
  return {
    name: 'sluice',
    grpc: service.address('gRPC'),
    http: service.http,
    debug: service.debug,
    log: () => service.log,
    stats: async () => {
      const all = Object.entries(await service.stats())
      return Object.fromEntries(all.filter(([, value]) => value !== 0))
    },
    isRunning: () => service.child.exitCode === null && service.child.signalCode === null,
    stop: async () => {
      await service.stop('SIGKILL')
    },
  }
}

async function readValues(redis: RedisServer): Promise<[string, string][]> {
  const keys = (await redis.run('KEYS', '*')) as string[]
  if (keys.length === 0) return []
  const values = (await redis.run('MGET', ...keys)) as (string | null)[]
  return keys.flatMap((key, i) => (values[i] === null ? [] : [[key, values[i]] as [string, string]]))
}
