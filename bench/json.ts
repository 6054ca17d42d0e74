/**
 * Does bench/load measure the same on the JSON port as autocannon? Both send the same request over as many connections for as
 * long; one worker with the memory store. This checks the load generator, whose figures the README quotes, not the service.
 *   floor   autocannon: calls per second, latency in whole milliseconds, the service's processor time per call
 *   now     bench/load; its ratios are those of one round: calls, processor time
 * To be investigated where the ratio of the processor time leaves 0.8 to 1.25. The ratio of the calls is near 1 where each
 * generator has a core of its own; on a busy machine bench/load, the cheaper one, leaves the service more time.
 * Windows alternate.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type RunningService, spawnService } from '../test/helpers/service.ts'
import { CpuMeter, cpuMs } from './load/cpu.ts'
import { parseKeys } from './load/keys.ts'
import { formatRules, jsonRequest, type Shape, Template } from './load/requests.ts'
import { formatSpread, LISTENING, loadWindow, START_MS_MAX } from './serving.ts'
import { size } from './size.ts'

const ROUNDS = size({ small: 1, full: 7 })
const WARMUP_ROUNDS = size({ small: 0, full: 1 }) // of bench/load: code is compiled
const CONNECTIONS = size({ small: 8, full: 64 })
const WINDOW_MS = 4_000 // whole seconds, as autocannon has them
const AUTOCANNON_WINDOW = size<object>({
  small: { amount: 400, timeout: 60 },
  full: { duration: WINDOW_MS / 1_000, warmup: { connections: CONNECTIONS, duration: 1 } }, // bench/load has a warm-up, too
})
const AUTOCANNON = fileURLToPath(new URL('../node_modules/autocannon/autocannon.js', import.meta.url))
const KEYS = 'hot' // autocannon repeats one request

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
  rules: { 'load.yaml': formatRules(shape.domain) },
  env: { BACKEND_TYPE: 'memory' },
})
try {
  await service.logged(LISTENING, START_MS_MAX)
  const generators = { floor: measureWithAutocannon, now: measureWithLoad }
  const windows: Record<string, Figures[]> = { floor: [], now: [] }
  for (let round = 0; round < WARMUP_ROUNDS; round++) await measureWithLoad(service)
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, measure] of Object.entries(generators))
      windows[name].push(await measureWithCpu(measure))
  }
  for (const [name, figures] of Object.entries(windows)) {
    const spread = (field: keyof Figures, unit = 1) => formatSpread(figures.map((each) => each[field] / unit))
    const ratio = (field: keyof Figures) =>
      formatSpread(figures.map((each, i) => each[field] / windows.floor[i][field]))
    const latency = `p50 ${spread('p50Ms')} ms   p99 ${spread('p99Ms')} ms   ${spread('cpuUs')} us`
    const ratios = name === 'floor' ? '' : `   calls ${ratio('perSec')} x, us ${ratio('cpuUs')} x`
    console.log(`json      ${name.padEnd(8)} ${spread('perSec', 1_000)} k/s   ${latency}${ratios}`)
  }
} finally {
  await service.stop()
}

/** Adds the service's processor time per call, warm-up included. The service counts the calls, for both generators alike. */
async function measureWithCpu(measure: (service: RunningService) => Promise<Measured>): Promise<Figures> {
  const readHits = async () =>
    (await service.stats())['ratelimit.service.rate_limit.load.user.total_hits'] ?? 0
  const meter = new CpuMeter({ name: 'server', pids: [service.child.pid!] })
  const [hitsBefore, before] = [await readHits(), meter.read()]
  const figures = await measure(service)
  const [after, hitsAfter] = [meter.read(), await readHits()]
  return { ...figures, cpuUs: (1_000 * cpuMs(before, after)) / (hitsAfter - hitsBefore) }
}

async function measureWithLoad(service: RunningService): Promise<Measured> {
  const { descriptors, entries } = shape
  const { ratePerSec, latencyMs, errorCount } = await loadWindow(service, {
    endpoint: `${service.http}/json`,
    shape: { connections: CONNECTIONS, streams: 1, keys: KEYS, descriptors, entries },
    window: size({ small: '60s', full: `${WINDOW_MS}ms` }),
  })
  if (errorCount > 0) throw new Error(`bench/load: ${errorCount} calls failed`)
  return { perSec: ratePerSec, p50Ms: latencyMs.p50, p99Ms: latencyMs.p99 }
}

/** In a process of its own, as bench/load. */
async function measureWithAutocannon(service: RunningService): Promise<Measured> {
  const options = {
    ...{ url: `${service.http}/json`, method: 'POST', headers: { 'content-type': 'application/json' } },
    ...{ body: createBody(), connections: CONNECTIONS, ...AUTOCANNON_WINDOW },
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

/** The body that bench/load sends. */
function createBody(): string {
  const template = new Template(jsonRequest(shape), shape)
  const bytes = Buffer.alloc(template.bytes.length)
  template.write(bytes, 0, shape.keys.start(0))
  return bytes.toString()
}
