/**
 * Each flood of flooding.ts against the whole service, from a process of its own. Meanwhile a well-behaved client on
 * another connection is answered, every time and soon; memory stays within its bounds and comes back.
 *
 *     flooding.ts ──── many connections ───► service ◄── a call every 5 ms ── this test
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askUntil, flood } from '../helpers/flood.ts'
import { GrpcClient } from '../helpers/grpc.ts'
import { type RunningService, spawnService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'
import { FLOODS } from './flooding.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 4000000000 }
`
const MIB = 1024 * 1024
const floodMs = size({ small: 400, full: 10_000 })
const manyConnections = size({ small: 500, full: 9_900 })
const connections = 50
const p99MaxMs = size({ small: 500, full: 100 }) // small: other tests run beside it
const growthMax = (size({ small: 96, full: 64 }) * MIB) as number
const growthManyMax = 200 * MIB
const backMaxMs = 30_000 // an idle thread looks for garbage every 5 s, and V8 keeps free pages for 10
const breathMax = 40 * MIB // memory comes back to within so much

let service: RunningService
let firstBytes = 0
beforeAll(async () => {
  service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { GRPC_FRONTEND: 'http2', BACKEND_TYPE: 'memory' },
  })
  await service.logged("Listening for HTTP on '")
  await flood('calls', service.address('gRPC'), 4, size({ small: 500, full: 3_000 })).done // a heap as under load
  firstBytes = residentBytes()
})
afterAll(async () => {
  await service.stop('SIGKILL')
})

for (const kind of Object.keys(FLOODS)) {
  const isMany = /connections$/.test(kind)
  test(`${kind}: others are answered, memory is bounded and comes back`, async () => {
    const before = residentBytes()
    let most = 0
    const address = service.address('gRPC')
    const flooded = flood(
      kind,
      address,
      kind.endsWith(' connections') ? manyConnections : connections,
      floodMs,
    )
    const client = new GrpcClient(address)
    const { latenciesMs, lost } = await askUntil(flooded.done, client, () => {
      most = Math.max(most, residentBytes())
    })
    client.close()
    const p99 = latenciesMs[Math.floor(latenciesMs.length * 0.99)]
    const backMs = await comesBack(before + breathMax)
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

test('after all of them, memory is as it was before', async () => {
  const backMs = await comesBack(firstBytes + breathMax)
  console.log(
    `${Math.round(firstBytes / MIB)} MiB before all, ${Math.round(residentBytes() / MIB)} after ${backMs} ms`,
  )
  expect(backMs).toBeLessThan(backMaxMs)
})

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
