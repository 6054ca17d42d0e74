/**
 * Starts what a comparison needs, pinned to cores, and always ends it.
 *
 *     core 0   the service that is measured           core 1   both Redis, the load generator
 *
 *     compare ──stdin──► sh ──► service               stdin ends, however compare dies: the service is killed
 *
 * Equal terms: both read the same rules, which never say no; both count their statistics, to be fetched by Prometheus,
 * which nobody does (without any sink the reference logs a line per decision); both have one core, and a Redis of their
 * own, which keeps nothing on disk.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { freePort } from '../../test/helpers/ports.ts'
import { startRedis } from '../../test/helpers/redis.ts'
import { rulesFor } from '../load/requests.ts'
import type { Given, Options } from './options.ts'

const START_MS_MAX = 20_000
const LOG_CHARS_MAX = 100_000
const SERVICE_CORE = '0'
const OTHER_CORE = '1'

export const isPinned = availableParallelism() > 1 && spawnSync('taskset', ['-V']).status === 0

/** The command that runs another on the generator's core. */
export function onOtherCore(command: string[]): string[] {
  return isPinned ? ['taskset', '-c', OTHER_CORE, ...command] : command
}

// The second line waits for the end of stdin beside the service; the third ends when the service does.
const script = `exec 3<&0; "$@" </dev/null & server=$!
(read -r _ <&3; kill -9 "$server") 2>/dev/null & watch=$!
wait "$server"; kill "$watch" 2>/dev/null`

export interface Started {
  a: Given
  b: Given
  stop(): Promise<void>
}

/** Ours as A, the reference as B. */
export async function startBoth({ reference, sluice, over, store }: Options): Promise<Started> {
  const ends: (() => Promise<void> | void)[] = []
  const stop = async () => {
    for (const end of ends.splice(0).reverse()) await end()
  }
  try {
    const root = mkdtempSync(join(tmpdir(), 'sluice-compare-'))
    ends.push(() => rmSync(root, { recursive: true, force: true }))
    mkdirSync(join(root, 'config'))
    writeFileSync(join(root, 'config', 'load.yaml'), rulesFor('load'))
    const start = async (
      command: string[],
      env: Record<string, string>,
      usesRedis: boolean,
    ): Promise<Given> => {
      const redis = usesRedis ? await startRedis() : null
      if (redis) ends.push(() => redis.stop())
      const address = redis && { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.address }
      const service = await startService(command, { RUNTIME_ROOT: root, ...address, ...env })
      ends.push(service.stop)
      const endpoint = over === 'grpc' ? `grpc://${service.grpc}` : `http://${service.http}/json`
      const cpu = [`server=${service.pid}`]
      if (redis)
        cpu.push(`redis=${pin(/process_id:(\d+)/.exec(String(await redis.run('INFO', 'server')))![1])}`)
      return { endpoint, cpu }
    }
    const ours = {
      WORKERS: '1',
      GRPC_FRONTEND: 'http2',
      ...(store === 'memory' && { BACKEND_TYPE: 'memory' }),
    }
    const a = await start([process.execPath, sluice, 'serve'], ours, store === 'redis')
    const b = await start([reference], { LOG_FORMAT: 'text' }, true)
    return { a, b, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function pin(pid: string): string {
  if (isPinned) execFileSync('taskset', ['-a', '-p', '-c', OTHER_CORE, pid], { stdio: 'ignore' })
  return pid
}

async function startService(command: string[], env: Record<string, string | undefined>) {
  const [http, grpc, debug, metrics] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const pinned = isPinned ? ['taskset', '-c', SERVICE_CORE, ...command] : command
  const child = spawn('sh', ['-c', script, 'sh', ...pinned], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      HOST: '127.0.0.1',
      GRPC_HOST: '127.0.0.1',
      DEBUG_HOST: '127.0.0.1',
      PORT: String(http),
      GRPC_PORT: String(grpc),
      DEBUG_PORT: String(debug),
      RUNTIME_WATCH_ROOT: 'false',
      USE_STATSD: 'false',
      USE_PROMETHEUS: 'true',
      PROMETHEUS_ADDR: `127.0.0.1:${metrics}`,
      LOG_LEVEL: 'warn',
      ...env,
    },
  })
  let log = ''
  let isRunning = true
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (log.length < LOG_CHARS_MAX) log += text
    })
  }
  const exited = new Promise<void>((resolve) => {
    child.once('error', () => resolve())
    child.once('close', () => resolve())
  })
  void exited.then(() => {
    isRunning = false
  })
  const stop = async () => {
    child.stdin.end()
    await exited
  }
  const until = Date.now() + START_MS_MAX
  const isUp = () => ['gRPC', 'HTTP'].every((name) => log.includes(`Listening for ${name}`))
  while (!isUp()) {
    if (!isRunning || Date.now() > until) {
      await stop()
      const what = `did not start. It said:\n${log}`
      throw new ConfigurationError({ code: 'COMPARE_START', where: command.join(' '), what })
    }
    await sleep(10)
  }
  return { http: `127.0.0.1:${http}`, grpc: `127.0.0.1:${grpc}`, pid: child.pid!, stop }
}
