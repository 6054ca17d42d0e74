/**
 * Each flood of flooding.ts against the whole service, from a process of its own. Meanwhile a well-behaved client on
 * another connection gets every response; memory stays within its bounds and is released.
 *
 *     flooding.ts ──── many connections ───► service ◄── a call every 5 ms ── this test
 *
 * A flood goes on until the client has its responses, so they come during the flood on any machine. Latency is bounded at
 * full size only.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { callRegularly, type Flooder, startFlooder } from '../helpers/flood.ts'
import { GrpcClient } from '../helpers/grpc.ts'
import { readRssBytes } from '../helpers/rss.ts'
import type { RunningService } from '../helpers/service.ts'
import { startSharedService } from '../helpers/shared.ts'
import { size } from '../helpers/size.ts'
import { FLOODS } from './flooding.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 4000000000 }
`
const MIB = 1024 * 1024
const FLOOD_MS = size({ small: 50, full: 10_000 })
const RESPONSES_MIN = size({ small: 10, full: 30 }) // during each flood
const CONNECTIONS = 50
const MANY_CONNECTIONS = size({ small: 500, full: 9_900 })
const P99_MS_MAX = size({ small: null, full: 100 })
const GROWTH_BYTES_MAX = (size({ small: 96, full: 64 }) * MIB) as number
const GROWTH_MANY_BYTES_MAX = 200 * MIB // with MANY_CONNECTIONS
const SLACK_BYTES = 40 * MIB // memory is released to within this
const RELEASE_MS_MAX = 60_000 // an idle thread looks for garbage every 5 s, and V8 keeps free pages for 10

let service: RunningService
let flooder: Flooder
let firstBytes = 0
const readBytes = () => readRssBytes(service.child.pid!)

beforeAll(async () => {
  flooder = startFlooder()
  service = await startSharedService({
    rules: { 'shop.yaml': RULES },
    env: { GRPC_FRONTEND: 'http2', BACKEND_TYPE: 'memory' },
  })
  await flooder.start('calls', service.address('gRPC'), 4) // a heap as under load
  await eventually(() => expect(flooder.stats.bytes).toBeGreaterThan(4 * MIB))
  await flooder.stop()
  firstBytes = readBytes()
})
afterAll(() => flooder?.end())

for (const kind of Object.keys(FLOODS)) {
  const isMany = kind.endsWith('connections')
  test(`${kind}: others get their responses, memory is bounded`, async () => {
    const beforeBytes = readBytes()
    let maxBytes = 0
    await flooder.start(kind, service.address('gRPC'), isMany ? MANY_CONNECTIONS : CONNECTIONS)
    const client = new GrpcClient(service.address('gRPC'))
    const endMs = performance.now() + FLOOD_MS
    const { latenciesMs, lost } = await callRegularly(client, (responses) => {
      maxBytes = Math.max(maxBytes, readBytes())
      return responses >= RESPONSES_MIN && performance.now() >= endMs
    })
    const stats = await flooder.stop()
    client.close()
    const p99 = latenciesMs[Math.floor(latenciesMs.length * 0.99)]
    const grownMib = Math.round((maxBytes - beforeBytes) / MIB)
    console.log(
      `${kind}: ${latenciesMs.length} calls, p99 ${p99.toFixed(1)} ms, max ${latenciesMs.at(-1)!.toFixed(1)} ms; ` +
        `memory +${grownMib} MiB of ${Math.round(beforeBytes / MIB)}; flood: ${JSON.stringify(stats)}`,
    )
    expect(lost).toEqual([])
    expect(maxBytes - beforeBytes).toBeLessThan(isMany ? GROWTH_MANY_BYTES_MAX : GROWTH_BYTES_MAX)
    if (P99_MS_MAX === null) return
    expect(p99).toBeLessThan(P99_MS_MAX)
    await eventually(() => expect(readBytes()).toBeLessThan(beforeBytes + SLACK_BYTES), RELEASE_MS_MAX)
  })
}

test('after all floods, memory is as it was before', { timeout: 2 * RELEASE_MS_MAX }, async () => {
  console.log(`${Math.round(firstBytes / MIB)} MiB before all floods, ${Math.round(readBytes() / MIB)} after`)
  await eventually(() => expect(readBytes()).toBeLessThan(firstBytes + SLACK_BYTES), RELEASE_MS_MAX)
})
