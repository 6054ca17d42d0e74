/**
 * How much throughput does observing a loaded service cost? Memory store, one worker, calls per second in a closed loop.
 *   floor       not observed
 *   metrics     Prometheus is scraped once a second
 *   cpu         a CPU profile of nine tenths of the window; its start and its end, which stop a worker briefly, are inside
 *   heap        a heap profile of the same length
 * Worth changing when one costs more than 5 %. Windows alternate; a ratio is the share of the floor's calls in the same round.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunningService, spawnService } from '../test/helpers/service.ts'
import { formatSpread, LISTENING, loadWindow, START_MS_MAX } from './serving.ts'
import { size } from './size.ts'

const ROUNDS = size({ small: 1, full: 5 })
const WARMUP_ROUNDS = size({ small: 0, full: 1 }) // of the floor: code is compiled
const WINDOW_MS = size({ small: 100, full: 10_000 })
const WINDOW = size({ small: '60s', full: `${WINDOW_MS}ms` })
const PROFILE_SEC = Math.ceil((WINDOW_MS * 0.9) / 1_000)
const BEFORE_MS = size({ small: 0, full: 1_500 }) // the generator's start and warm-up
const SCRAPE_MS = 1_000

type Probe = (service: RunningService) => Promise<void>

const probes: Record<string, Probe> = {
  floor: async () => {},
  metrics: async (service) => {
    const endMs = performance.now() + WINDOW_MS
    for (; performance.now() < endMs; await sleep(Math.min(SCRAPE_MS, WINDOW_MS)))
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
  await service.logged(LISTENING, START_MS_MAX)
  for (let round = 0; round < WARMUP_ROUNDS; round++) await measureRate(probes.floor)
  const rates: Record<string, number[]> = Object.fromEntries(Object.keys(probes).map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, probe] of Object.entries(probes)) rates[name].push(await measureRate(probe))
  }
  for (const [name, perSec] of Object.entries(rates)) {
    const ratio = formatSpread(perSec.map((each, round) => each / rates.floor[round]))
    console.log(
      `watched   ${name.padEnd(8)} ${formatSpread(perSec.map((each) => each / 1_000))} k/s${name === 'floor' ? '' : `   ${ratio} x`}`,
    )
  }
} finally {
  await service.stop()
}

/** Calls per second while the probe runs. */
async function measureRate(probe: Probe): Promise<number> {
  const [{ ratePerSec }] = await Promise.all([
    loadWindow(service, { connections: 4, window: WINDOW }),
    sleep(BEFORE_MS).then(() => probe(service)),
  ])
  return ratePerSec
}

async function read(url: string): Promise<void> {
  const response = await fetch(url)
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`${url}: ${response.status}`)
}
