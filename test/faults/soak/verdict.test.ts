/** Each way in which a soak run can fail is reported, and a good run passes. */
import { expect, test } from 'vitest'
import { KINDS } from './load.ts'
import { drawSoak } from './picture.ts'
import type { FaultRun, SoakResult } from './run.ts'
import { formatVerdict, judge } from './verdict.ts'

const NAMES = ['Redis killed', 'Redis stopped']
const SECONDS = 1_800
const counts = Object.fromEntries(KINDS.map((kind) => [kind, 10])) as SoakResult['samples'][number]['counts']

function createRun(change: Partial<SoakResult> = {}): SoakResult {
  return {
    measuredPerSec: 100,
    ratePerSec: 70,
    seconds: SECONDS,
    samples: Array.from({ length: SECONDS }, (_, sec) => ({
      ...{ sec, seconds: 1, counts, p99Ms: 3 },
      process: { rssBytes: 2e8, descriptors: 60, threads: 9 },
    })),
    threads: Array.from({ length: SECONDS }, (_, sec) => ({
      ...{ sec, heapBytes: 5e7, externalBytes: 3e7, mainDelayMs: 1, workerDelayMs: 2 },
    })),
    faults: Array.from({ length: 29 }, (_, i) => createFault(i)),
    ...{ othersBefore: 0, decisions: 126_000, dropped: 0, unanswered: 0, lagMs: 1, errors: {}, exitCode: 0 },
    ...change,
  }
}

function createFault(i: number, change: Partial<FaultRun> = {}): FaultRun {
  const fromSec = 60 * (i + 1)
  return {
    name: NAMES[i % 2],
    fromSec,
    toSec: fromSec + 10,
    isSeen: true,
    isOver: true,
    backMs: 400,
    ...change,
  }
}

const faultsWith = (change: Partial<FaultRun>) =>
  Array.from({ length: 29 }, (_, i) => createFault(i, i === 7 ? change : {}))
const samplesWith = (
  change: (sec: number) => Partial<{ rssBytes: number; descriptors: number; threads: number }>,
) =>
  createRun().samples.map((sample) => ({ ...sample, process: { ...sample.process!, ...change(sample.sec) } }))
const threadsWith = (change: (sec: number) => Partial<SoakResult['threads'][number]>) =>
  createRun().threads.map((sample) => ({ ...sample, ...change(sample.sec) }))

test('a good run passes', () => {
  expect(judge(createRun()).problems).toEqual([])
})

// biome-ignore format: a table
test.each<[string, Partial<SoakResult>, RegExp]>([
  ['memory', { samples: samplesWith((sec) => ({ rssBytes: 2e8 + 60_000 * sec })) }, /^resident memory grows by 206.0 MiB per hour; 48 are permitted$/],
  ['descriptors', { samples: samplesWith((sec) => ({ descriptors: 60 + Math.floor(sec / 120) })) }, /^descriptors grows by /],
  ['threads', { samples: samplesWith((sec) => ({ threads: 9 + Math.floor(sec / 300) })) }, /^threads grows by /],
  ['heaps', { threads: threadsWith((sec) => ({ heapBytes: 5e7 + 60_000 * sec })) }, /^heaps, used grows by /],
  ['external memory', { threads: threadsWith((sec) => ({ externalBytes: 3e7 + 60_000 * sec })) }, /^external memory grows by /],
  ['delay of workers', { threads: threadsWith((sec) => ({ workerDelayMs: 1 + sec / 100 })) }, /^event loop delay, slowest worker grows by /],
  ['delay of main', { threads: threadsWith((sec) => ({ mainDelayMs: 1 + sec / 100 })) }, /^event loop delay, main grows by /],
  ['no effect', { faults: faultsWith({ isSeen: false }) }, /^Redis stopped at 480 s had no effect$/],
  ['it lasts', { faults: faultsWith({ isOver: false }) }, /^Redis stopped at 480 s had not passed when the next fault began$/],
  ['slow to come back', { faults: faultsWith({ backMs: 2_001 }) }, /^Redis stopped at 480 s was followed by answers that the store did not count for 2001 ms$/],
  ['errors without a fault', { othersBefore: 1 }, /^1 answers before the first fault did not come from the store$/],
  ['too much load', { dropped: 3 }, /^3 calls were not made, because too many waited$/],
  ['no answer', { unanswered: 2 }, /^2 calls were not answered$/],
  ['a busy machine', { lagMs: 21 }, /^calls were made 21.0 ms late \(p99\): the machine is too busy to judge$/],
  ['a crash', { exitCode: null }, /^the service ended with exit code null$/],
])('%s', (_, change, problem) => {
  expect(judge(createRun(change)).problems).toEqual([expect.stringMatching(problem)])
})

test('a service that is gone, and a run that is too short', () => {
  const samples = createRun().samples.map((sample) => ({ ...sample, process: null }))
  expect(judge(createRun({ samples })).problems).toContain('the service ended')
  const { problems } = judge(createRun({ faults: [createFault(0), createFault(1)] }))
  expect(problems).toHaveLength(7)
  for (const problem of problems) expect(problem).toMatch(/fewer than 6 quiet spans to compare; run longer$/)
})

test('the report has a row per series and kind of fault, and the reasons', () => {
  const run = createRun({ faults: faultsWith({ backMs: 2_500 }) })
  const text = formatVerdict(run, judge(run))
  expect(text).toContain('30.0 min, 126000 answers, 70 calls per second (70 % of 100)')
  expect(text).toContain('| descriptors | 60.0 | 0.0 (0.0 to 0.0) | 6 |')
  expect(text).toContain('| Redis killed | 15 | 400 ms (400 ms) |')
  expect(text).toContain('| Redis stopped | 14 | 400 ms (2500 ms) |')
  expect(text).toContain('FAILED: Redis stopped at 480 s was followed by')
  expect(formatVerdict(createRun(), judge(createRun()))).toMatch(/passed\n$/)
})

test('the picture has a panel per group of series, marks the faults, and says what it shows', () => {
  const svg = drawSoak(createRun(), judge(createRun()))
  expect(svg.match(/class="name"/g)).toHaveLength(5)
  expect(svg.match(/class="span"/g)).toHaveLength(29)
  for (const kind of KINDS) expect(svg).toContain(`>${kind}<`)
  expect(svg).toContain('<title id="title">30 minutes at 70 calls per second, 29 faults</title>')
  expect(svg).toContain(
    'at the latest after 400 ms. Memory, descriptors, threads and event loop delay stayed flat.',
  )
  const failed = createRun({ dropped: 3 })
  expect(drawSoak(failed, judge(failed))).not.toContain('stayed flat')
})
