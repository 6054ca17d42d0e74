/** The verdict on a soak run: which series are flat, and whether each fault had an effect and passed. */
import type { FaultRun, SoakResult } from './run.ts'
import type { ProcessSample } from './samples.ts'
import { computeTrend, findQuietWindows, isGrowing, median, type Trend, WINDOWS_MIN } from './trend.ts'

export const BACK_MS_MAX = 2_000
const LAG_MS_MAX = 20 // p99; a generator that is later waits for a core, as does the service
const SETTLE_SEC_MAX = 5 // after a fault; at most a third of the time to the next one
const MIB = 2 ** 20

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
  problems: string[] // empty = passed
}

export function judge(result: SoakResult): Verdict {
  const windows = findWindows(result)
  const series = Object.values(WATCHED).map(({ name, unit, boundPerHour, values }) => {
    return { name, unit, boundPerHour, trend: computeTrend(values(result), windows) }
  })
  return {
    series,
    problems: [...series.flatMap(judgeSeries), ...judgeCalls(result), ...result.faults.flatMap(judgeFault)],
  }
}

/** The quiet spans of the run; the first rotation of the faults is the warm-up. */
function findWindows({ faults, seconds }: SoakResult) {
  const pauses = faults.map(({ toSec }, i) => (faults[i + 1]?.fromSec ?? seconds) - toSec)
  const settleSec = pauses.length === 0 ? 0 : Math.min(SETTLE_SEC_MAX, median(pauses) / 3)
  const rotation = new Set(faults.map(({ name }) => name)).size
  return findQuietWindows(faults, seconds, settleSec, rotation)
}

function judgeSeries({ name, boundPerHour, trend, unit }: JudgedSeries): string[] {
  if (trend === null) return [`${name}: fewer than ${WINDOWS_MIN} quiet spans to compare; run longer`]
  if (!isGrowing(trend, boundPerHour)) return []
  return [`${name} grows by ${trend.slopePerHour.toFixed(1)} ${unit} per hour; ${boundPerHour} are permitted`]
}

function judgeCalls({ samples, othersBefore, dropped, unanswered, lagMs, exitCode }: SoakResult): string[] {
  const problems: string[] = []
  if (lagMs > LAG_MS_MAX)
    problems.push(`calls were made ${lagMs.toFixed(1)} ms late (p99): the machine is too busy to judge`)
  if (samples.some(({ process }) => process === null)) problems.push('the service ended')
  if (othersBefore > 0)
    problems.push(`${othersBefore} answers before the first fault did not come from the store`)
  if (dropped > 0) problems.push(`${dropped} calls were not made, because too many waited`)
  if (unanswered > 0) problems.push(`${unanswered} calls were not answered`)
  if (exitCode !== 0) problems.push(`the service ended with exit code ${exitCode}`)
  return problems
}

function judgeFault({ name, fromSec, isSeen, isOver, backMs }: FaultRun): string[] {
  const problems: string[] = []
  if (!isSeen) problems.push('had no effect')
  if (!isOver) problems.push('had not passed when the next fault began')
  if (backMs > BACK_MS_MAX)
    problems.push(`was followed by answers that the store did not count for ${Math.round(backMs)} ms`)
  return problems.map((problem) => `${name} at ${Math.round(fromSec)} s ${problem}`)
}

/** Tables of a run, for the terminal and for documents. */
export function formatVerdict(result: SoakResult, { series, problems }: Verdict): string {
  const { faults, decisions, seconds, ratePerSec, measuredPerSec, lagMs } = result
  const share =
    measuredPerSec > 0
      ? ` (${Math.round((100 * ratePerSec) / measuredPerSec)} % of ${Math.round(measuredPerSec)})`
      : ''
  const head = `${(seconds / 60).toFixed(1)} min, ${decisions} answers, ${ratePerSec} calls per second${share}; the generator's lag was ${lagMs.toFixed(1)} ms (p99)`
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
    ...(problems.length === 0 ? ['passed'] : problems.map((problem) => `FAILED: ${problem}`)),
  ].join('\n')}\n`
}
