/**
 * Starts the reference: the program SLUICE_REFERENCE names, with the variables of spec section 10, on 127.0.0.1.
 *
 *     test process ──stdin──► sh ──► reference          stdin ends when the test process dies in any way, and it is killed
 *                    ◄──statsd over TCP──┘              the only way to its counters
 */
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../helpers/ports.ts'

/** One of the two services under comparison. */
export interface Side {
  name: string
  grpc: string // host:port
  http: string // base address
  debug: string
  log(): string // all of it, JSON lines
  stats(): Promise<Record<string, number>> // every counter that is not 0
  isRunning(): boolean
  stop(): Promise<void>
}

const START_MS_MAX = 60_000
const FLUSH_MS = 250
const SETTLE_FLUSHES = 6 // the library's writer holds lines back for up to a second more

// The second line waits for the end of stdin beside the program; the third ends when the program does.
const script = `exec 3<&0; "$0" </dev/null & server=$!
(read -r _ <&3; kill -9 "$server") 2>/dev/null & watch=$!
wait "$server"; kill "$watch" 2>/dev/null`

/** `hasOwnSession`: as in test/helpers/redis.ts. */
export async function startReference(
  program: string,
  env: Record<string, string>,
  hasOwnSession = false,
): Promise<Side> {
  const statsd = await startStatsd()
  const [http, grpc, debug] = [await freePort(), await freePort(), await freePort()]
  const child = spawn('sh', ['-c', script, program], {
    stdio: ['pipe', 'ignore', 'pipe'],
    detached: hasOwnSession,
    env: {
      PATH: process.env.PATH,
      HOST: '127.0.0.1',
      GRPC_HOST: '127.0.0.1',
      DEBUG_HOST: '127.0.0.1',
      PORT: String(http),
      GRPC_PORT: String(grpc),
      DEBUG_PORT: String(debug),
      USE_STATSD: 'true',
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String(statsd.port),
      STATS_FLUSH_INTERVAL: `${FLUSH_MS}ms`,
      LOG_LEVEL: 'info',
      LOG_FORMAT: 'json',
      ...env,
    },
  })
  let log = ''
  let isRunning = true
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  void exited.then(() => {
    isRunning = false
  })
  const stop = async () => {
    child.stdin.end()
    await exited
    statsd.stop()
  }
  const until = Date.now() + START_MS_MAX
  while (!log.includes('Listening for gRPC')) {
    if (!isRunning || Date.now() > until) {
      await stop()
      throw new Error(`the reference did not start:\n${log}`)
    }
    await sleep(10)
  }
  return {
    name: 'reference',
    grpc: `127.0.0.1:${grpc}`,
    http: `http://127.0.0.1:${http}`,
    debug: `http://127.0.0.1:${debug}`,
    log: () => log,
    stats: async () => {
      await sleep(SETTLE_FLUSHES * FLUSH_MS)
      return statsd.totals()
    },
    isRunning: () => isRunning,
    stop,
  }
}

interface Statsd {
  port: number
  totals(): Record<string, number>
  stop(): void
}

/** Sums up received counters (`name:2|c`); ignores all other lines. */
async function startStatsd(): Promise<Statsd> {
  const totals = new Map<string, number>()
  const port = await freePort()
  const server = createServer((socket) => {
    let rest = ''
    socket.setEncoding('utf8').on('error', () => socket.destroy())
    socket.on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        const found = /^(.*):(\d+)\|c$/s.exec(line)
        if (found) totals.set(found[1], (totals.get(found[1]) ?? 0) + Number(found[2]))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return { port, totals: () => Object.fromEntries(totals), stop: () => server.close() }
}
