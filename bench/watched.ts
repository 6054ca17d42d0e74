/**
 * What does looking at a loaded service cost its callers? Memory store, one worker, calls per second in a closed loop.
 *   floor       nobody looks
 *   metrics     Prometheus is scraped once a second
 *   cpu         a CPU profile of nine tenths of the window; both its ends, which stop a worker for a moment, are inside
 *   heap        a heap profile in the same way
 * Worth changing when one costs more than 5 %. Windows take turns; a ratio is that of a round's window to its floor: the
 * share of the calls that is left.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunningService, spawnService } from '../test/helpers/service.ts'
import { formatSpread, loadWindow } from './serving.ts'
import { size } from './size.ts'

const ROUNDS = size({ small: 1, full: 5 })
const WINDOW_MS = size({ small: 200, full: 10_000 })
const PROFILE_SEC = Math.ceil((WINDOW_MS * 0.9) / 1_000)
const BEFORE_MS = size({ small: 500, full: 1_500 }) // the generator's start and warm-up
const SCRAPE_MS = 1_000

type Probe = (service: RunningService) => Promise<void>

const probes: Record<string, Probe> = {
  floor: async () => {},
  metrics: async (service) => {
    for (const end = performance.now() + PROFILE_SEC * 1_000; performance.now() < end; await sleep(SCRAPE_MS))
      await read(`http://${service.address('Prometheus')}/metrics`)
  },
  cpu: (service) => read(`${service.debug}/debug/pprof/profile?seconds=${PROFILE_SEC}`),
  heap: (service) => read(`${service.debug}/debug/pprof/heap?seconds=${PROFILE_SEC}`),
}

const rules =
  'domain: load\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }]\n'
const service = spawnService({
  rules: { 'load.yaml': rules },
  env: {
    BACKEND_TYPE: 'memory',
    DISABLE_STATS: 'false',
    USE_STATSD: 'false',
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: '127.0.0.1:0',
  },
})
try {
  await service.logged("Listening for HTTP on '")
  await window(probes.floor) // code is compiled
  const rates: Record<string, number[]> = Object.fromEntries(Object.keys(probes).map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, look] of Object.entries(probes)) rates[name].push(await window(look))
  }
  for (const [name, perSec] of Object.entries(rates)) {
    const left = formatSpread(perSec.map((each, round) => each / rates.floor[round]))
    console.log(
      `watched   ${name.padEnd(8)} ${formatSpread(perSec.map((each) => each / 1_000))} k/s${name === 'floor' ? '' : `   ${left} x`}`,
    )
  }
} finally {
  await service.stop()
}

/** Calls per second while somebody looks. */
async function window(look: Probe): Promise<number> {
  const [{ ratePerSec }] = await Promise.all([
    loadWindow(service, { connections: 4, window: `${WINDOW_MS}ms` }),
    sleep(BEFORE_MS).then(() => look(service)),
  ])
  return ratePerSec
}

async function read(url: string): Promise<void> {
  const response = await fetch(url)
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`${url}: ${response.status}`)
}
