/**
 * A real Redis on a private port of 127.0.0.1, without persistence.
 *
 *     test process ──stdin──► sh ──► redis-server          when the test process ends, for any reason, stdin closes and Redis is killed
 *
 *     const redis = await startRedis()
 *     await redis.run('GET', key)
 *     await redis.stop()
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Certificates } from './certificates.ts'
import { freePort } from './ports.ts'

export interface RedisServer {
  port: number
  address: string // 127.0.0.1:port
  path: string // of its unix socket
  client: Redis
  run(command: string, ...args: (string | number | Buffer)[]): Promise<unknown>
  /** All keys. A `ttlSec` of -1 means that the key never expires. */
  contents(): Promise<Record<string, { value: string; ttlSec: number }>>
  /** May be called again. */
  stop(): Promise<void>
}

/** `port`: that of an earlier server, for a restart. `args`: further arguments of redis-server, e.g. `['--requirepass', 'x']`. */
export interface RedisServerOptions {
  port?: number
  args?: string[]
  password?: string
  tls?: Certificates // the port uses TLS; client certificates are required only with `args`
  hasOwnSession?: boolean // Linux shares cores between sessions, as between the services of an init system
  sentinel?: string // starts a sentinel with this configuration
  folder?: string // of its files, which then outlive it; default: one of its own
}

const START_MS_MAX = 60_000

// The second line waits for the end of stdin beside the server; the third ends when the server does.
const script = `exec 3<&0; redis-server "$@" </dev/null & server=$!
(read -r _ <&3; kill -9 "$server") 2>/dev/null & watch=$!
wait "$server"; kill "$watch" 2>/dev/null`

/** A server that is started with its data replies LOADING to everything at first. */
async function pingUntilLoaded(client: Redis): Promise<void> {
  for (;;) {
    try {
      await client.ping()
      return
    } catch (error) {
      if (!(error as Error).message.startsWith('LOADING')) throw error
      await sleep(5)
    }
  }
}

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const port = options.port ?? (await freePort())
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'sluice-redis-')))
  const path = join(folder, 'redis.sock')
  const { tls, sentinel } = options
  // biome-ignore format: pairs of name and value
  const ports = tls
    ? ['--port', '0', '--tls-port', String(port), '--tls-replication', 'yes', '--tls-auth-clients', 'no',
       '--tls-ca-cert-file', tls.ca, '--tls-cert-file', tls.cert, '--tls-key-file', tls.key]
    : ['--port', String(port)]
  // biome-ignore format: pairs of name and value
  const args = ['--bind', '127.0.0.1', '--unixsocket', path, '--dir', folder, '--daemonize', 'no',
    ...(sentinel === undefined ? ['--save', '', '--appendonly', 'no'] : []), ...ports, ...(options.args ?? [])]
  if (sentinel !== undefined) {
    await writeFile(join(folder, 'sentinel.conf'), sentinel) // the sentinel rewrites this file
    args.unshift(join(folder, 'sentinel.conf'), '--sentinel')
  }
  const server = spawn('sh', ['-c', script, 'sh', ...args], {
    stdio: 'pipe',
    detached: options.hasOwnSession,
  })
  let output = ''
  for (const stream of [server.stdout, server.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (output.length < 10_000) output += text
    })
  }
  const exited = new Promise<void>((resolve) => server.once('exit', () => resolve()))

  const client = new Redis({
    port,
    host: '127.0.0.1',
    password: options.password,
    protocol: 2,
    enableReadyCheck: false,
    retryStrategy: () => 20,
    maxRetriesPerRequest: null,
    ...(tls && {
      tls: {
        ca: await readFile(tls.ca),
        cert: await readFile(tls.cert),
        key: await readFile(tls.key),
        checkServerIdentity: () => undefined,
      },
    }),
  })
  client.on('error', () => {}) // until it listens
  const isUp = await Promise.race([
    pingUntilLoaded(client).then(() => true),
    exited.then(() => false),
    new Promise<boolean>((resolve) => setTimeout(resolve, START_MS_MAX, false).unref()),
  ])
  const stop = async () => {
    client.disconnect()
    server.stdin.end()
    await exited
    if (options.folder === undefined) await rm(folder, { recursive: true, force: true })
  }
  if (!isUp) {
    await stop()
    throw new Error(`redis-server did not start on port ${port}:\n${output}`)
  }
  const run = (command: string, ...args: (string | number | Buffer)[]) => client.call(command, ...args)
  return { port, address: `127.0.0.1:${port}`, path, client, run, contents: () => readContents(client), stop }
}

async function readContents(client: Redis): Promise<Record<string, { value: string; ttlSec: number }>> {
  const contents: Record<string, { value: string; ttlSec: number }> = {}
  for (const key of (await client.keys('*')).sort()) {
    const [value, ttlSec] = await Promise.all([client.get(key), client.ttl(key)])
    contents[key] = { value: value ?? '', ttlSec }
  }
  return contents
}
