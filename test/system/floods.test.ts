/**
 * Each flood of flooding.ts against the whole service, from a process of its own. Meanwhile a well-behaved client on
 * another connection is answered, every time and soon; memory stays within its bounds and comes back.
 *
 *     flooding.ts ──── many connections ───► service ◄── a call every 5 ms ── this test
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { type RunningService, spawnService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'
import { FLOODS } from './flooding.ts'

const FLOODING = fileURLToPath(new URL('flooding.ts', import.meta.url))
const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 4000000000 }
`
const MIB = 1024 * 1024
const GAP_MS = 5 // between calls of the well-behaved client
const floodMs = size({ small: 400, full: 10_000 })
const manyConnections = size({ small: 500, full: 9_900 })
const connections = 50
const p99MaxMs = size({ small: 500, full: 100 }) // small: other tests run beside it
const growthMax = (size({ small: 96, full: 64 }) * MIB) as number
const growthManyMax = 200 * MIB
const backMaxMs = 20_000
/** What V8 keeps of garbage until it next grows: a thread that is idle collects none. */
const breathMax = 48 * MIB
const breathManyMax = 96 * MIB

let service: RunningService
let firstBytes = 0
beforeAll(async () => {
  service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { GRPC_FRONTEND: 'http2', BACKEND_TYPE: 'memory' },
  })
  await service.logged("Listening for HTTP on '")
  await flood('calls', 4, size({ small: 500, full: 3_000 })).done // a heap as under load
  firstBytes = residentBytes()
})
afterAll(async () => {
  await service.stop('SIGKILL')
})

for (const kind of Object.keys(FLOODS)) {
  const isMany = /connections$/.test(kind)
  test(`${kind}: others are answered, memory is bounded and comes back`, async () => {
    const before = residentBytes()
    const flooded = flood(kind, kind.endsWith(' connections') ? manyConnections : connections, floodMs)
    const client = new GrpcClient(service.address('gRPC'))
    const { latenciesMs, lost, most } = await askUntil(client, flooded.done)
    client.close()
    const p99 = latenciesMs.sort((a, b) => a - b)[Math.floor(latenciesMs.length * 0.99)]
    const backMs = await comesBack(before + (isMany ? breathManyMax : breathMax))
    const grown = Math.round((most - before) / MIB)
    console.log(
      `${kind}: ${latenciesMs.length} calls, p99 ${p99.toFixed(1)} ms, max ${latenciesMs.at(-1)!.toFixed(1)} ms; ` +
        `memory +${grown} MiB of ${Math.round(before / MIB)}, back after ${backMs} ms; attackers: ${await flooded.done}`,
    )
    expect(lost).toEqual([])
    expect(p99).toBeLessThan(p99MaxMs)
    expect(most - before).toBeLessThan(isMany ? growthManyMax : growthMax)
    expect(backMs).toBeLessThan(backMaxMs)
  })
}

test('after all of them, memory is as it was before', () => {
  expect(residentBytes() - firstBytes).toBeLessThan(breathManyMax)
})

function flood(kind: string, count: number, ms: number): { done: Promise<string> } {
  const port = service.address('gRPC').split(':')[1]
  const args = [FLOODING, kind, port, String(count), String(ms)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
  })
  return { done: once(child, 'close').then(() => out.trim()) }
}

/** A call every GAP_MS, answered or not, until `end`; and the most memory seen. */
async function askUntil(client: GrpcClient, end: Promise<unknown>) {
  const latenciesMs: number[] = []
  const lost: string[] = []
  let most = 0
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
    most = Math.max(most, residentBytes())
    await sleep(GAP_MS)
  }
  await Promise.all(calls)
  return { latenciesMs, lost, most }
}

/** Milliseconds until no more is used than this. */
async function comesBack(bytes: number): Promise<number> {
  const startMs = performance.now()
  while (residentBytes() > bytes && performance.now() - startMs < backMaxMs) await sleep(50)
  return Math.round(performance.now() - startMs)
}

function residentBytes(): number {
  const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)![1]) * 1024
}
