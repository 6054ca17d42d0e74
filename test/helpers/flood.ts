/**
 * Floods of test/system/flooding.ts, in one process of their own, and a well-behaved client.
 *
 *     const flooder = startFlooder()
 *     await flooder.start('rapid resets', service.address('gRPC'), 50)        resolves when the first connection is made
 *     const { lost } = await callRegularly(client, () => flooder.stats.bytes > 100_000)
 *     const { connects } = await flooder.stop()
 *     flooder.end()
 */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FloodStats } from '../system/flooding.ts'
import { eventually } from './eventually.ts'
import { type GrpcClient, question } from './grpc.ts'

const FLOODING = fileURLToPath(new URL('../system/flooding.ts', import.meta.url))
const GAP_MS = 5 // between calls of the well-behaved client

export interface Flooder {
  readonly stats: FloodStats // of the latest flood
  start(kind: string, address: string, connections: number): Promise<void>
  stop(): Promise<FloodStats>
  end(): void
}

export function startFlooder(): Flooder {
  const child = spawn(process.execPath, [FLOODING], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  let stats: FloodStats = { isRunning: false, bytes: 0, attempts: 0, connects: 0 }
  child.on('message', (message) => {
    stats = message as FloodStats
  })
  const waitFor = (isReached: () => boolean) =>
    eventually(() => {
      if (!isReached()) throw new Error(`the flood did not start or stop: ${JSON.stringify(stats)}`)
    })
  return {
    get stats() {
      return stats
    },
    async start(kind, address, connections) {
      stats = { ...stats, isRunning: false }
      child.send({ kind, port: Number(address.split(':')[1]), connections })
      await waitFor(() => stats.isRunning && stats.connects > 0)
    },
    async stop() {
      child.send('stop')
      await waitFor(() => !stats.isRunning)
      return stats
    },
    end() {
      child.kill('SIGKILL')
    },
  }
}

export interface CallResults {
  latenciesMs: number[] // in order of size
  lost: string[] // error messages of calls that failed
}

/** Makes a call every GAP_MS until `isEnough`, which is given the number of responses so far. Waits for all responses. */
export async function callRegularly(
  client: GrpcClient,
  isEnough: (responses: number) => boolean,
): Promise<CallResults> {
  const latenciesMs: number[] = []
  const lost: string[] = []
  const call = async () => {
    const startMs = performance.now()
    try {
      await client.ask(question('shop', { user: 'alice' }))
    } catch (error) {
      lost.push((error as Error).message)
    }
    latenciesMs.push(performance.now() - startMs)
  }
  await call() // the connection
  latenciesMs.length = 0
  const calls: Promise<void>[] = []
  while (!isEnough(latenciesMs.length)) {
    calls.push(call())
    await sleep(GAP_MS)
  }
  await Promise.all(calls)
  return { latenciesMs: latenciesMs.sort((a, b) => a - b), lost }
}
