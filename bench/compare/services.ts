/**
 * Starts the services of a comparison, pinned to cores, and always ends them.
 *
 *     core 0   the service that is measured           core 1   both Redis, the load generator
 *
 *     compare ──stdin──► sh ──► service               when compare ends, stdin is closed and the service is killed
 *
 * Equal terms: both read the same rules, which are never exceeded; both count statistics for Prometheus, which does not scrape
 * them (without any sink the reference logs a line per decision); both have one core, and a Redis without persistence.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { freePort } from '../../test/helpers/ports.ts'
import { startRedis } from '../../test/helpers/redis.ts'
import { formatRules } from '../load/requests.ts'
import type { Given, Options } from './options.ts'

const START_MS_MAX = 20_000
const LOG_CHARS_MAX = 100_000
const SERVICE_CORE = '0'
const OTHER_CORE = '1'

export const isPinned = availableParallelism() > 1 && spawnSync('taskset', ['-V']).status === 0

/** Prefixes a command so that it runs on the generator's core. */
export function pinToOtherCore(command: string[]): string[] {
  return isPinned ? ['taskset', '-c', OTHER_CORE, ...command] : command
}

// The second line waits for the end of stdin and kills the service; the third ends with the service.
const script = `exec 3<&0; "$@" </dev/null & server=$!
(read -r _ <&3; kill -9 "$server") 2>/dev/null & watch=$!
wait "$server"; kill "$watch" 2>/dev/null`

export interface Started {
  a: Given
  b: Given
  stop(): Promise<void>
}

/** Sluice as A, the reference as B. */
export async function startBoth({ reference, sluice, over, store }: Options): Promise<Started> {
  const stops: (() => Promise<void> | void)[] = []
  const stop = async () => {
    for (const each of stops.splice(0).reverse()) await each()
  }
  try {
    const root = mkdtempSync(join(tmpdir(), 'sluice-compare-'))
    stops.push(() => rmSync(root, { recursive: true, force: true }))
    mkdirSync(join(root, 'config'))
    writeFileSync(join(root, 'config', 'load.yaml'), formatRules('load'))
    const start = async (
      command: string[],
      env: Record<string, string>,
      usesRedis: boolean,
    ): Promise<Given> => {
      const redis = usesRedis ? await startRedis() : null
      if (redis) stops.push(() => redis.stop())
      const address = redis && { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.address }
      const service = await startService(command, { RUNTIME_ROOT: root, ...address, ...env })
      stops.push(service.stop)
      const endpoint = over === 'grpc' ? `grpc://${service.grpc}` : `http://${service.http}/json`
      const cpu = [`server=${service.pid}`]
      if (redis)
        cpu.push(`redis=${pin(/process_id:(\d+)/.exec(String(await redis.run('INFO', 'server')))![1])}`)
      return { endpoint, cpu }
    }
    const sluiceEnv = {
      WORKERS: '1',
      GRPC_FRONTEND: 'http2',
      ...(store === 'memory' && { BACKEND_TYPE: 'memory' }),
    }
    const a = await start([process.execPath, sluice, 'serve'], sluiceEnv, store === 'redis')
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
  const endMs = Date.now() + START_MS_MAX
  const isListening = () => ['gRPC', 'HTTP'].every((name) => log.includes(`Listening for ${name}`))
  while (!isListening()) {
    if (!isRunning || Date.now() > endMs) {
      await stop()
      const what = `did not start. Its log:\n${log}`
      throw new ConfigurationError({ code: 'COMPARE_START', where: command.join(' '), what })
    }
    await sleep(10)
  }
  return { http: `127.0.0.1:${http}`, grpc: `127.0.0.1:${grpc}`, pid: child.pid!, stop }
}
