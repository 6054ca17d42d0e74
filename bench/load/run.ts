/**
 * One run: warm-up, window, outstanding responses; then the figures.
 *
 *     connect ── warm-up ──┬────── window ──────┬── outstanding responses ── close
 *                      CPU read             CPU read
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CpuMeter, type CpuReading, cpuMs, machineMs } from './cpu.ts'
import type { Bucket } from './histogram.ts'
import { Loop } from './loop.ts'
import type { Options } from './options.ts'
import { type Point, Recorder } from './recorder.ts'

/** Shares of calls and their names in the result. */
export const QUANTILES = { p50: 0.5, p75: 0.75, p90: 0.9, p99: 0.99, p999: 0.999, p9999: 0.9999 } as const
type Quantiles = { [name in keyof typeof QUANTILES]: number }

export interface Cpu {
  usPerDecision: number
  cores: number // 1 = one core all the time
}

interface Lag {
  ratePerSec: number
  lagP99Ms: number
  lagMaxMs: number
  held: number
  dropped: number
  unconnected: number // of those dropped
}

export interface Result {
  startedAt: string // ISO 8601
  endpoint: string
  load: Record<string, string | number> // the options that shape it
  seconds: number
  decisions: number
  ratePerSec: number
  ok: number
  overLimit: number
  limited: number // decisions with a status that named its limit
  errorCount: number // failed calls, warm-up included: in neither rate nor latency
  errors: Record<string, number> // the same by cause
  warnings: string[] // why the figures may not mean what they seem to
  isCut: boolean // interrupted before the window was over
  refused: number // calls the server declined before beginning them
  reconnects: number
  openLoop: Lag | null
  latencyMs: Quantiles & { min: number; mean: number; max: number }
  cpu: Record<string, Cpu>
  generator: Cpu
  othersCores: number // other processes of this machine, in cores: the noise in the figures
  series: Point[]
  buckets: Bucket[]
}

const POINTS_MAX = 100 // of the series
const INTERVAL_MS_MIN = 100
const POLL_MS = 2

export interface Progress {
  everyMs: number
  print(point: Point): void
}

/** `ending` ends the window early; figures are returned all the same. */
export async function run(
  options: Options,
  progress: Progress,
  ending = new AbortController().signal,
): Promise<Result> {
  const startedAt = new Date().toISOString()
  const meters = options.cpu.map((group) => new CpuMeter(group))
  const { keys, seed, ...shape } = options
  const recorder = new Recorder(options.ratePerSec > 0)
  const loop = new Loop({ ...options, shape: { ...shape, keys }, nextKey: keys.start(seed) }, recorder)
  await loop.start()
  const intervalMs = Math.max(INTERVAL_MS_MIN, options.durationMs / POINTS_MAX)
  const ticking = setInterval(() => recorder.tick(performance.now()), intervalMs)
  if (options.warmupMs > 0) await pause(options.warmupMs, ending)

  const ownBefore = process.cpuUsage()
  const before = meters.map((meter) => meter.read())
  const machineBefore = machineMs()
  const fromMs = options.warmupMs > 0 ? performance.now() : loop.beginMs
  recorder.begin(fromMs)
  ticking.refresh()
  const printing = setInterval(
    () => progress.print(recorder.takeProgress(performance.now())),
    progress.everyMs,
  )
  await waitForWindow(options, recorder, ending)
  const toMs = performance.now()
  recorder.toMs = toMs
  const after = meters.map((meter) => meter.read())
  const machineUsed = machineMs() - machineBefore
  const ownUsed = process.cpuUsage(ownBefore)
  clearInterval(ticking)
  clearInterval(printing)

  await loop.stop()
  recorder.end()
  const ms = toMs - fromMs
  const toCpu = (usedMs: number): Cpu => ({
    usPerDecision: recorder.decisions === 0 ? 0 : (usedMs * 1_000) / recorder.decisions,
    cores: usedMs / ms,
  })
  const cpu = computeCpu(meters, before, after, toCpu)
  const generator = toCpu((ownUsed.user + ownUsed.system) / 1_000)
  const knownCores = Object.values(cpu).reduce((sum, { cores }) => sum + cores, generator.cores)
  return {
    startedAt,
    ...describe(options),
    ...summarizeCalls(recorder, ms),
    warnings: listWarnings(recorder),
    isCut: ending.aborted && ms < options.durationMs,
    openLoop: options.ratePerSec === 0 ? null : computeLag(options.ratePerSec, recorder),
    cpu,
    generator,
    othersCores: Math.max(0, machineUsed / ms - knownCores),
    series: recorder.series,
    buckets: recorder.latency.buckets(),
  }
}

/** Until the duration is over, or before that until the wanted number of calls has ended. */
async function waitForWindow(
  { calls, durationMs }: Options,
  recorder: Recorder,
  ending: AbortSignal,
): Promise<void> {
  if (calls === 0) return pause(durationMs, ending)
  const endMs = performance.now() + durationMs
  while (performance.now() < endMs && !ending.aborted && recorder.decisions + recorder.errorCount < calls)
    await pause(POLL_MS, ending)
}

/** Resolves early when `ending` is aborted. */
async function pause(ms: number, ending: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal: ending })
  } catch (error) {
    if (!ending.aborted) throw error
  }
}

function listWarnings({ decisions, overLimit, limited }: Recorder): string[] {
  if (decisions === 0 || overLimit > 0 || limited > 0) return []
  return [
    'no rule applied to any request, or only unlimited ones: no response named a limit; see --rules and --domain',
  ]
}

/** Whether a call failed, or none succeeded. */
export function isFailed(result: Result): boolean {
  return result.decisions === 0 || result.errorCount > 0
}

function describe({ endpoint, keys, ...options }: Options) {
  const { protocol, host, port, path } = endpoint
  const { connections, streams, descriptors, entries, hits, seed, warmupMs, ratePerSec, deadline, domain } =
    options
  return {
    endpoint: `${protocol}://${host}:${port}${protocol === 'http' ? path : ''}`,
    load: {
      connections,
      streams,
      ratePerSec,
      keys: keys.name,
      descriptors,
      entries,
      hits,
      domain,
      seed,
      warmupMs,
      deadline,
    },
  }
}

function summarizeCalls(recorder: Recorder, ms: number) {
  const { decisions, ok, overLimit, limited, errorCount, errors, refused, reconnects, latency } = recorder
  const quantiles = Object.entries(QUANTILES).map(([name, share]) => [name, latency.quantileMs(share)])
  return {
    seconds: ms / 1_000,
    decisions,
    ratePerSec: (decisions * 1_000) / ms,
    ok,
    overLimit,
    limited,
    errorCount,
    errors,
    refused,
    reconnects,
    latencyMs: {
      ...(Object.fromEntries(quantiles) as Quantiles),
      min: latency.minMs,
      mean: latency.meanMs,
      max: latency.maxMs,
    },
  }
}

function computeLag(ratePerSec: number, { lag, held, dropped, unconnected }: Recorder): Lag {
  return { ratePerSec, lagP99Ms: lag.quantileMs(0.99), lagMaxMs: lag.maxMs, held, dropped, unconnected }
}

function computeCpu(
  meters: CpuMeter[],
  before: CpuReading[],
  after: CpuReading[],
  toCpu: (ms: number) => Cpu,
): Record<string, Cpu> {
  return Object.fromEntries(meters.map(({ name }, i) => [name, toCpu(cpuMs(before[i], after[i]))]))
}
