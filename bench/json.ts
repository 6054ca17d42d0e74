/**
 * Does our load generator say of the JSON port what autocannon says? The same request, connections and time for both, one
 * worker with the memory store. It is a check on bench/load, whose figures the README quotes, not on the service.
 *   floor   autocannon: calls per second, latency in whole milliseconds, the service's processor time per call
 *   now     bench/load; its ratios are those of a round's window to its floor: calls, processor time
 * Worth looking into where the ratio of the processor time leaves 0.8 to 1.25. That of the calls is near 1 where each
 * generator has a core to itself; on a busy machine the cheaper generator, ours, leaves the service more of the rest.
 * Windows take turns.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type RunningService, spawnService } from '../test/helpers/service.ts'
import { CpuMeter, cpuMs } from './load/cpu.ts'
import { parseKeys } from './load/keys.ts'
import { jsonRequest, rulesFor, type Shape, Template } from './load/requests.ts'
import { formatSpread, loadWindow } from './serving.ts'
import { size } from './size.ts'

const ROUNDS = size({ small: 1, full: 7 })
const CONNECTIONS = size({ small: 8, full: 64 })
const WINDOW_MS = size({ small: 1_000, full: 4_000 }) // whole seconds, as autocannon has them
const AUTOCANNON = fileURLToPath(new URL('../node_modules/autocannon/autocannon.js', import.meta.url))
const KEYS = 'hot' // autocannon asks one question only

interface Measured {
  perSec: number
  p50Ms: number
  p99Ms: number
}
interface Figures extends Measured {
  cpuUs: number
}

const shape: Shape = { domain: 'load', descriptors: 1, entries: 1, hits: 1, keys: parseKeys(KEYS)! }
const service = spawnService({
  rules: { 'load.yaml': rulesFor(shape.domain) },
  env: { BACKEND_TYPE: 'memory' },
})
try {
  await service.logged("Listening for HTTP on '")
  const sides = { floor: measureWithAutocannon, now: measureWithLoad }
  const windows: Record<string, Figures[]> = { floor: [], now: [] }
  await measureWithLoad(service) // code is compiled
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, ask] of Object.entries(sides)) windows[name].push(await withCpu(ask))
  }
  for (const [name, figures] of Object.entries(windows)) {
    const of = (field: keyof Figures, unit = 1) => formatSpread(figures.map((each) => each[field] / unit))
    const ratio = (field: keyof Figures) =>
      formatSpread(figures.map((each, i) => each[field] / windows.floor[i][field]))
    const latency = `p50 ${of('p50Ms')} ms   p99 ${of('p99Ms')} ms   ${of('cpuUs')} us`
    const ratios = name === 'floor' ? '' : `   calls ${ratio('perSec')} x, us ${ratio('cpuUs')} x`
    console.log(`json      ${name.padEnd(8)} ${of('perSec', 1_000)} k/s   ${latency}${ratios}`)
  }
} finally {
  await service.stop()
}

/** With what the service needed per call, warm-up included; it counts the calls itself, so both sides are counted alike. */
async function withCpu(ask: (asked: RunningService) => Promise<Measured>): Promise<Figures> {
  const hits = async () => (await service.stats())['ratelimit.service.rate_limit.load.user.total_hits'] ?? 0
  const meter = new CpuMeter({ name: 'server', pids: [service.child.pid!] })
  const [hitsBefore, before] = [await hits(), meter.read()]
  const figures = await ask(service)
  const [after, hitsAfter] = [meter.read(), await hits()]
  return { ...figures, cpuUs: (1_000 * cpuMs(before, after)) / (hitsAfter - hitsBefore) }
}

async function measureWithLoad(asked: RunningService): Promise<Measured> {
  const { descriptors, entries } = shape
  const { ratePerSec, latencyMs, errorCount } = await loadWindow(asked, {
    endpoint: `${asked.http}/json`,
    shape: { connections: CONNECTIONS, streams: 1, keys: KEYS, descriptors, entries },
    window: `${WINDOW_MS}ms`,
  })
  if (errorCount > 0) throw new Error(`bench/load: ${errorCount} calls failed`)
  return { perSec: ratePerSec, p50Ms: latencyMs.p50, p99Ms: latencyMs.p99 }
}

/** In a process of its own, as the other one. */
async function measureWithAutocannon(asked: RunningService): Promise<Measured> {
  const options = {
    ...{ url: `${asked.http}/json`, method: 'POST', headers: { 'content-type': 'application/json' } },
    ...{ body: question(), connections: CONNECTIONS, duration: WINDOW_MS / 1_000 },
    warmup: { connections: CONNECTIONS, duration: 1 }, // bench/load has one, too
  }
  const script = `
    require(${JSON.stringify(AUTOCANNON)})(${JSON.stringify(options)}, (error, result) => {
      if (error) throw error
      const { non2xx, errors, duration, requests, latency } = result
      const figures = { perSec: requests.total / duration, p50Ms: latency.p50, p99Ms: latency.p99 }
      console.log(JSON.stringify({ ...figures, failed: non2xx + errors }))
    })`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script])
  const { failed, ...figures } = JSON.parse(stdout)
  if (failed > 0) throw new Error(`autocannon: ${failed} calls failed`)
  return figures
}

/** The very body that bench/load sends. */
function question(): string {
  const template = new Template(jsonRequest(shape), shape)
  const bytes = Buffer.alloc(template.bytes.length)
  template.write(bytes, 0, shape.keys.start(0))
  return bytes.toString()
}
