/** A flood of test/system/flooding.ts in a process of its own, and the well-behaved client beside it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type GrpcClient, question } from './grpc.ts'

const FLOODING = fileURLToPath(new URL('../system/flooding.ts', import.meta.url))
const GAP_MS = 5 // between calls of the well-behaved client

/** `done`: its last line. It ends by itself after `ms`. */
export function flood(
  kind: string,
  address: string,
  connections: number,
  ms: number,
): { done: Promise<string> } {
  const port = address.split(':')[1]
  const args = [FLOODING, kind, port, String(connections), String(ms)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
  })
  return { done: once(child, 'close').then(() => out.trim()) }
}

export interface Asked {
  latenciesMs: number[] // in order of size
  lost: string[] // why
}

/** A call every GAP_MS, answered or not, until `end`. */
export async function askUntil(end: Promise<unknown>, client: GrpcClient, onTurn = () => {}): Promise<Asked> {
  const latenciesMs: number[] = []
  const lost: string[] = []
  let isOver = false
  void end.then(() => {
    isOver = true
  })
  const calls: Promise<void>[] = []
  const ask = async () => {
    const startMs = performance.now()
    try {
      await client.ask(question('shop', { user: 'alice' }))
    } catch (error) {
      lost.push((error as Error).message)
    }
    latenciesMs.push(performance.now() - startMs)
  }
  await ask() // the connection
  latenciesMs.length = 0
  while (!isOver) {
    calls.push(ask())
    onTurn()
    await sleep(GAP_MS)
  }
  await Promise.all(calls)
  return { latenciesMs: latenciesMs.sort((a, b) => a - b), lost }
}
