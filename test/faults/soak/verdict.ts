/**
 * The verdict on a soak run: which series are flat, which are too high, and whether each fault had an effect and passed.
 *
 *     first span ─── fault ── settle ── quiet span ─── fault ── settle ── quiet span …
 *     reference      peaks              medians, shares
 *
 * A flat series may be flat at any height, so each has a bound as well: in quiet spans for time and answers, at every moment for memory
 * and descriptors, above what the first span had.
 *
 * The generator, the stores and the service share the machine. What the generator's own pauses explain is excused (load.ts); where even
 * quiet spans are full of them, nothing that depends on time is judged, and the run has not passed.
 */
import { PAUSE_MS } from './load.ts'
import type { FaultRun, Sample, SoakResult } from './run.ts'
import type { ProcessSample } from './samples.ts'
import {
  computeTrend,
  findQuietWindows,
  isGrowing,
  median,
  type Trend,
  WINDOWS_MIN,
  type Window,
} from './trend.ts'

export const BACK_MS_MAX = 2_000
const LAG_MS_MAX = 20 // p99 of a second, median of quiet spans; a generator that is later waits for a core, as does the service
const PAUSED_SHARE_MAX = 0.05 // of the seconds in quiet spans; with more pauses too much would be excused
const SETTLE_SEC_MAX = 5 // after a fault; at most a third of the time to the next one
const MIB = 2 ** 20
const RSS_PEAK_MIB_MAX = 512 // above the first span; calls that wait in a fault and V8's garbage included
const DESCRIPTORS_PEAK_MAX = 500 // above the first span; clients that vanish have 20 at a time
const DELAY_MS_MAX = 50 // median in quiet spans
const P99_FACTOR_MAX = 3 // median in quiet spans, of that of the first span
const P99_MS_FREE = 20 // which may always be reached
const P99_MS_MAX = 50 // and never exceeded
const OTHERS_SHARE_MAX = 0.001 // of the answers in quiet spans; 0 on a quiet machine
const RESTART_SEC = BACK_MS_MAX / 1_000 // after the start or the end of a thread calls may fail

interface Watched {
  name: string
  unit: string
  boundPerHour: number // units
  values(result: SoakResult): [sec: number, value: number | null][]
}

type Threads = SoakResult['threads'][number]

const ofProcess =
  (read: (process: ProcessSample) => number): Watched['values'] =>
  ({ samples }) =>
    samples.map(({ sec, process }) => [sec, process && read(process)])
const ofThreads =
  (read: (threads: Threads) => number): Watched['values'] =>
  ({ threads }) =>
    threads.map((each) => [each.sec, read(each)])

/** What must be flat, and how much it may rise per hour. At 10,000 calls per second 48 MiB per hour are 1.4 bytes per call. */
// biome-ignore format: a table
export const WATCHED = {
  rss: { name: 'resident memory', unit: 'MiB', boundPerHour: 48, values: ofProcess(({ rssBytes }) => rssBytes / MIB) },
  heap: { name: 'heaps, used', unit: 'MiB', boundPerHour: 24, values: ofThreads(({ heapBytes }) => heapBytes / MIB) },
  external: { name: 'external memory', unit: 'MiB', boundPerHour: 12, values: ofThreads(({ externalBytes }) => externalBytes / MIB) },
  descriptors: { name: 'descriptors', unit: '', boundPerHour: 6, values: ofProcess(({ descriptors }) => descriptors) },
  threads: { name: 'threads', unit: '', boundPerHour: 2, values: ofProcess(({ threads }) => threads) },
  workerDelay: { name: 'event loop delay, slowest worker', unit: 'ms', boundPerHour: 10, values: ofThreads(({ workerDelayMs }) => workerDelayMs) },
  mainDelay: { name: 'event loop delay, main', unit: 'ms', boundPerHour: 10, values: ofThreads(({ mainDelayMs }) => mainDelayMs) },
} satisfies Record<string, Watched>

export interface JudgedSeries {
  name: string
  unit: string
  boundPerHour: number
  trend: Trend | null // null = too few windows
}

export interface Verdict {
  series: JudgedSeries[]
  problems: string[] // of the service
  unjudged: string[] // why the bounds on time were not judged
  // both empty = passed
}

export function judge(result: SoakResult): Verdict {
  const windows = findWindows(result)
  const series = Object.values(WATCHED).map(({ name, unit, boundPerHour, values }) => {
    return { name, unit, boundPerHour, trend: computeTrend(values(result), windows) }
  })
  const unjudged = judgeMachine(result)
  const isTimed = unjudged.length === 0
  const isDelay = ({ unit }: JudgedSeries) => unit === 'ms'
  return {
    series,
    unjudged,
    problems: [
      ...series.filter((each) => isTimed || !isDelay(each)).flatMap(judgeSeries),
      ...judgeHeights(result, isTimed),
      ...judgeCalls(result),
      ...judgePromises(result),
      ...result.faults.flatMap((fault) => judgeFault(fault, isTimed)),
    ],
  }
}

/** Whether the machine had cores for the service when no fault was there. */
function judgeMachine(result: SoakResult): string[] {
  const { quietSamples } = findQuietSamples(result)
  const lags = quietSamples.flatMap(({ lagMs }) => lagMs ?? [])
  const lagMs = lags.length === 0 ? 0 : median(lags)
  const paused = quietSamples.filter(({ pauseMs }) => pauseMs >= PAUSE_MS).length
  const unjudged: string[] = []
  if (lagMs > LAG_MS_MAX) unjudged.push(`calls were made ${lagMs.toFixed(1)} ms late (p99)`)
  if (paused > PAUSED_SHARE_MAX * quietSamples.length)
    unjudged.push(`no core was free for ${PAUSE_MS} ms in ${paused} of ${quietSamples.length} quiet samples`)
  return unjudged
}

/** The quiet spans of the run that a trend is of; the first rotation of the faults is the warm-up. */
function findWindows(result: SoakResult): Window[] {
  const { faults, seconds } = result
  const rotation = new Set(faults.map(({ name }) => name)).size
  return findQuietWindows(faults, seconds, getSettleSec(result), rotation)
}

function getSettleSec({ faults, seconds }: SoakResult): number {
  const pauses = faults.map(({ toSec }, i) => (faults[i + 1]?.fromSec ?? seconds) - toSec)
  return pauses.length === 0 ? 0 : Math.min(SETTLE_SEC_MAX, median(pauses) / 3)
}

function judgeSeries({ name, boundPerHour, trend, unit }: JudgedSeries): string[] {
  if (trend === null) return [`${name}: fewer than ${WINDOWS_MIN} quiet spans to compare; run longer`]
  if (!isGrowing(trend, boundPerHour)) return []
  return [`${name} grows by ${trend.slopePerHour.toFixed(1)} ${unit} per hour; ${boundPerHour} are permitted`]
}

/** Samples of nothing but quiet spans, and of these those before the first fault. */
function findQuietSamples(result: SoakResult) {
  const { samples, faults, seconds } = result
  const settleSec = getSettleSec(result)
  const first = { fromSec: settleSec, toSec: faults[0]?.fromSec ?? seconds }
  const quiet = [first, ...findQuietWindows(faults, seconds, settleSec, 0)]
  const firstSamples = samples.filter((sample) => isWithin(sample, first))
  const quietSamples = samples.filter((sample) => quiet.some((window) => isWithin(sample, window)))
  return { quiet, firstSamples, quietSamples }
}

/** Bounds on the heights of series, which a trend does not see. */
function judgeHeights(result: SoakResult, isTimed: boolean): string[] {
  const { threads } = result
  const { quiet, firstSamples, quietSamples } = findQuietSamples(result)
  if (firstSamples.length === 0)
    return ['no sample was taken before the first fault, so the later ones cannot be compared']
  const problems: string[] = []
  const limit = (what: string, value: number, max: number, unit: string) => {
    if (value > max) problems.push(`${what}: ${value.toFixed(1)}${unit}; ${max.toFixed(1)} are permitted`)
  }
  for (const [{ name, values }, max] of [
    [WATCHED.rss, RSS_PEAK_MIB_MAX],
    [WATCHED.descriptors, DESCRIPTORS_PEAK_MAX],
  ] as const) {
    const all = values(result).flatMap(([, value]) => value ?? [])
    const atFirst = values({ ...result, samples: firstSamples }).flatMap(([, value]) => value ?? [])
    if (atFirst.length > 0)
      limit(`${name}, highest above the first span`, all.reduce(larger, 0) - median(atFirst), max, '')
  }
  if (!isTimed) return problems
  for (const { name, values } of [WATCHED.workerDelay, WATCHED.mainDelay]) {
    const own = values({ ...result, threads: threads.filter(({ sec }) => quiet.some(contains(sec))) })
    if (own.length > 0)
      limit(`${name}, median in quiet spans`, median(own.map(([, value]) => value!)), DELAY_MS_MAX, ' ms')
  }
  const computeP99 = (all: readonly Sample[]) =>
    median(all.map(({ p99Ms }) => p99Ms ?? Number.POSITIVE_INFINITY))
  const p99MsMax = Math.min(P99_MS_MAX, Math.max(P99_MS_FREE, P99_FACTOR_MAX * computeP99(firstSamples)))
  limit('p99 of the time to an answer, median in quiet spans', computeP99(quietSamples), p99MsMax, ' ms')
  const sum = (read: (counts: Sample['counts']) => number) =>
    quietSamples.reduce((total, { counts }) => total + read(counts), 0)
  const others = sum((counts) => counts.local + counts.allow + counts.deny + counts.failed)
  const counted = sum((counts) => counts['within limit'] + counts['over limit'])
  const share = others / Math.max(1, others + counted)
  limit('answers in quiet spans not by the store', 1e3 * share, 1e3 * OTHERS_SHARE_MAX, ' of 1,000')
  return problems
}

const larger = (a: number, b: number) => Math.max(a, b)

const contains =
  (sec: number) =>
  ({ fromSec, toSec }: Window) =>
    sec >= fromSec && sec < toSec

/** The sample is of nothing but the window. */
function isWithin({ sec, seconds }: Sample, { fromSec, toSec }: Window): boolean {
  return sec - seconds >= fromSec && sec <= toSec
}

/** What a policy promises while its store is away, and what a limit promises. */
function judgePromises({ samples, faults, warmSec, limit }: SoakResult): string[] {
  const problems: string[] = []
  const restarts = faults.filter(({ isRestart }) => isRestart)
  const isExcused = ({ sec, seconds }: Sample) =>
    sec - seconds <= warmSec + RESTART_SEC ||
    restarts.some(({ fromSec, toSec }) => sec >= fromSec && sec - seconds <= toSec + RESTART_SEC)
  const bad = samples.filter((sample) => sample.broken > 0 && !isExcused(sample))
  if (bad.length > 0) {
    const calls = bad.reduce((sum, { broken }) => sum + broken, 0)
    const [{ sec, brokenExample }] = bad
    problems.push(
      `${calls} calls failed although their policy answers, or were answered by another policy, first at ${Math.round(sec)} s (${brokenExample})`,
    )
  }
  if (limit !== null && limit.passed > limit.most)
    problems.push(`${limit.passed} calls of one counter passed; its limits allow ${limit.most}`)
  if (limit !== null && limit.passed < limit.least)
    problems.push(`${limit.passed} calls of one counter passed; its limits had room for ${limit.least}`)
  return problems
}

function judgeCalls({ samples, othersBefore, dropped, unanswered, exitCode }: SoakResult): string[] {
  const problems: string[] = []
  if (samples.some(({ process }) => process === null)) problems.push('the service ended')
  if (othersBefore > 0)
    problems.push(`${othersBefore} answers before the first fault did not come from the store`)
  if (dropped > 0) problems.push(`${dropped} calls were not made, because too many waited`)
  if (unanswered > 0) problems.push(`${unanswered} calls were not answered`)
  if (exitCode !== 0) problems.push(`the service ended with exit code ${exitCode}`)
  return problems
}

function judgeFault({ name, fromSec, isSeen, isOver, backMs }: FaultRun, isTimed: boolean): string[] {
  const problems: string[] = []
  if (!isSeen) problems.push('had no effect')
  if (!isOver) problems.push('had not passed when the next fault began')
  if (isTimed && backMs > BACK_MS_MAX)
    problems.push(`was followed by answers that the store did not count for ${Math.round(backMs)} ms`)
  return problems.map((problem) => `${name} at ${Math.round(fromSec)} s ${problem}`)
}

/** Tables of a run, for the terminal and for documents. */
export function formatVerdict(result: SoakResult, { series, problems, unjudged }: Verdict): string {
  const { faults, decisions, seconds, ratePerSec, measuredPerSec, givenUpExcused } = result
  const share =
    measuredPerSec > 0
      ? ` (${Math.round((100 * ratePerSec) / measuredPerSec)} % of ${Math.round(measuredPerSec)})`
      : ''
  const head = `${(seconds / 60).toFixed(1)} min, ${decisions} answers, ${ratePerSec} calls per second${share}; ${givenUpExcused} calls were given up in pauses of the machine`
  const number = (value: number) => value.toFixed(1)
  const rows = series.map(({ name, unit, boundPerHour, trend }) => {
    if (trend === null) return `| ${name} | | | ${boundPerHour} |`
    const { slopePerHour, lowPerHour, highPerHour } = trend
    const slope = `${number(slopePerHour)} (${number(lowPerHour)} to ${number(highPerHour)})`
    return `| ${name} | ${`${number(trend.median)} ${unit}`.trimEnd()} | ${slope} | ${boundPerHour} |`
  })
  const byName = Map.groupBy(faults, ({ name }) => name)
  const passed = [...byName].map(([name, runs]) => {
    const back = runs.map(({ backMs }) => backMs)
    return `| ${name} | ${runs.length} | ${Math.round(median(back))} ms (${Math.round(Math.max(...back))} ms) |`
  })
  return `${[
    head,
    '',
    '| series | median | slope per hour (95 %) | bound |\n|---|---|---|---|',
    ...rows,
    '',
    '| fault | times | back, median (worst) |\n|---|---|---|',
    ...passed,
    '',
    ...problems.map((problem) => `FAILED: ${problem}`),
    ...unjudged.map((reason) => `NOT JUDGED, bounds on time: ${reason}; the machine is too busy`),
    ...(problems.length + unjudged.length === 0 ? ['passed'] : []),
  ].join('\n')}\n`
}
