/**
 * What does a scrape of the native series cost (PROMETHEUS_NATIVE_SERIES), with the table of transports/metrics and with prom-client's?
 *   floor   the lines joined from prepared parts: no series, no table
 *   now     the sink: the table, in portions between which other work runs
 *   prom    prom-client's counters and gauges, and its own text
 *   mixed   the same in portions, read as JSON and written by exposition.ts, like the series of the process
 *   add     floor: one cell of a typed array, as workers count; labels: prom-client's inc with labels; child: its bound child
 * Per scrape: its time, the longest turn in which nothing else of the thread runs, and the heap kept per series.
 * Worth changing when `prom` is at most 1.5 x of `now` in all three. Variants alternate; medians.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { expose } from '../transports/metrics/prometheus/exposition.ts'
import { toFamilies } from '../transports/metrics/prometheus/process-series.ts'
import { PrometheusSink } from '../transports/metrics/prometheus.ts'
import type { NativeStats, Snapshot } from '../transports/metrics/sink.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const SERIES_PER_RULE = 3 // hits that passed, hits over the limit, the limit
const ROUNDS = size({ small: 1, full: 15 })
const COUNTS = size({ small: [300], full: [10_000, 100_000] })
const TAGS = [['zone', 'b']] as const
const PORTION = 2_000 // values between two yields, as in series-updater.ts
const ADDS = size({ small: 1_000, full: 1_000_000 })

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const random = seeded(7)
let checksum = 0

for (const seriesCount of COUNTS) {
  const rules = Math.floor(seriesCount / SERIES_PER_RULE)
  const snapshot = createSnapshot(rules)
  const scrapes = {
    floor: floor(snapshot),
    now: await createVariant(() => now(snapshot)),
    prom: await createVariant(() => prom(snapshot, false)),
    mixed: await createVariant(() => prom(snapshot, true)),
  }
  const results = new Map(
    Object.keys(scrapes).map((name) => [name, { ms: [] as number[], turnMs: [] as number[] }]),
  )
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, { scrape }] of Object.entries(scrapes)) {
      for (const hit of snapshot.native!.hits) (hit as { total: number }).total += Math.floor(random() * 3)
      const { ms, turnMs, bytes } = await measureScrape(scrape)
      checksum += bytes
      if (round < 0) continue // code is compiled
      results.get(name)!.ms.push(ms)
      results.get(name)!.turnMs.push(turnMs)
    }
  }
  for (const [name, { ms, turnMs }] of results) {
    const ratio = name === 'floor' ? '' : `${(median(ms) / median(results.get('floor')!.ms)).toFixed(1)} x`
    const { heapBytes } = scrapes[name as keyof typeof scrapes]
    console.log(
      `series  ${`${name} ${seriesCount}`.padEnd(14)}${median(ms).toFixed(2).padStart(9)} ms ${ratio.padStart(8)}` +
        `   longest turn ${median(turnMs).toFixed(2)} ms   ${Math.round(heapBytes / seriesCount)} bytes per series`,
    )
  }
}
console.log(`series  checksum ${checksum}`)

const cells = new Float64Array(1_000)
const counter = new Counter({
  name: 'hits_total',
  help: 'x',
  labelNames: ['domain', 'rule', 'code'],
  registers: [],
})
const labels = Array.from(cells, (_, i) => ({ domain: 'shop', rule: `user.plan${i}`, code: 'ok' }))
const children = labels.map((each) => counter.labels(each))
await measure('add', ADDS, {
  floor: () => {
    for (let i = 0; i < ADDS; i++) cells[i % 1_000]++
    return cells[7]
  },
  labels: () => {
    for (let i = 0; i < ADDS; i++) counter.inc(labels[i % 1_000])
    return 1
  },
  child: () => {
    for (let i = 0; i < ADDS; i++) children[i % 1_000].inc()
    return 1
  },
})

interface Variant {
  scrape: () => Promise<number> // returns the count of bytes
  heapBytes: number
}

function createSnapshot(rules: number): Snapshot {
  const names = Array.from({ length: rules }, (_, i) => `user_${i}.path_/api/items`)
  const hits = names.flatMap((rule) =>
    (['ok', 'over_limit'] as const).map((code) => ({ domain: 'shop', rule, code, total: 1 })),
  )
  const limits = names.map((rule) => ({ domain: 'shop', rule, unit: 'minute', requestsPerUnit: 100 }))
  const decisionTime = { boundsSec: [0.001, 0.01], counts: [5, 3, 1], sumSec: 0.1 }
  return { counters: [], gauges: [], timers: [], native: { hits, limits, decisionTime } }
}

/** Creates a variant and measures the heap it keeps after the first scrape. */
async function createVariant(make: () => Variant['scrape']): Promise<Variant> {
  const before = heapBytes()
  const scrape = make()
  await scrape()
  return { scrape, heapBytes: heapBytes() - before }
}

function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

function floor({ native }: Snapshot): Variant {
  const { hits, limits } = native as NativeStats
  const heads = hits.map(
    ({ domain, rule, code }) =>
      `sluice_hits_total{code="${code}",domain="${domain}",rule="${rule}",zone="b"} `,
  )
  const limitLines = limits.map(
    ({ rule, unit, requestsPerUnit }) =>
      `sluice_limit_requests{domain="shop",rule="${rule}",unit="${unit}",zone="b"} ${requestsPerUnit}\n`,
  )
  const scrape = async () => {
    let text = ''
    for (let i = 0; i < heads.length; i++) text += `${heads[i]}${hits[i].total}\n`
    for (const line of limitLines) text += line
    return Buffer.from(text).length
  }
  return { scrape, heapBytes: 0 }
}

function now(snapshot: Snapshot): Variant['scrape'] {
  const sink = new PrometheusSink({
    ...{ address: '', path: '', mapperFile: '', isInMilliseconds: false, hasNative: true, tags: TAGS },
    ...{ read: async () => snapshot, log: () => {} },
  })
  return async () => (await sink.scrape(false)).length
}

/** Counters grow by the difference to the last snapshot; limits are set again, since rules may have been removed. */
function prom({ native }: Snapshot, isPortioned: boolean): Variant['scrape'] {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const zone = TAGS[0][0]
  const createHits = {
    name: 'sluice_hits_total',
    help: 'Hits',
    labelNames: [zone, 'domain', 'rule', 'code'],
    registers,
  }
  const createLimits = {
    name: 'sluice_limit_requests',
    help: 'Limits',
    labelNames: [zone, 'domain', 'rule', 'unit'],
    registers,
  }
  const [hitsTotal, limitsNow] = [new Counter(createHits), new Gauge(createLimits)]
  const reported = new Float64Array(native!.hits.length)
  const zoneValue = TAGS[0][1]
  return async () => {
    const { hits, limits } = native as NativeStats
    for (let i = 0; i < hits.length; i++) {
      if (isPortioned && i % PORTION === 0) await nextTurn()
      const { domain, rule, code, total } = hits[i]
      if (total === reported[i]) continue
      hitsTotal.inc({ [zone]: zoneValue, domain, rule, code }, total - reported[i])
      reported[i] = total
    }
    limitsNow.reset()
    for (let i = 0; i < limits.length; i++) {
      if (isPortioned && i % PORTION === 0) await nextTurn()
      const { domain, rule, unit, requestsPerUnit } = limits[i]
      limitsNow.set({ [zone]: zoneValue, domain, rule, unit }, requestsPerUnit)
    }
    if (!isPortioned) return Buffer.from(await registry.metrics()).length
    let bytes = 0
    let lines = 0
    for (const text of expose(await toFamilies(registry), 0)) {
      bytes += Buffer.from(text).length
      if (++lines % PORTION === 0) await nextTurn()
    }
    return bytes
  }
}

/** Measures one scrape, and the longest time without a yield. */
async function measureScrape(
  scrape: Variant['scrape'],
): Promise<{ ms: number; turnMs: number; bytes: number }> {
  let isDone = false
  let turnMs = 0
  const watching = (async () => {
    for (let lastMs = performance.now(); !isDone; ) {
      await nextTurn()
      const nowMs = performance.now()
      turnMs = Math.max(turnMs, nowMs - lastMs)
      lastMs = nowMs
    }
  })()
  const startMs = performance.now()
  const bytes = await scrape()
  const ms = performance.now() - startMs
  isDone = true
  await watching
  return { ms, turnMs, bytes }
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]
}
