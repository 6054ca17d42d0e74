/** Each way in which a soak run can fail is reported, and a good run passes. */
import { expect, test } from 'vitest'
import { KINDS } from './load.ts'
import { drawSoak } from './picture.ts'
import type { FaultRun, Sample, SoakResult } from './run.ts'
import { formatVerdict, judge } from './verdict.ts'

const NAMES = ['Redis killed', 'Redis stopped']
const SECONDS = 1_800
const NONE = Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Sample['counts']
const COUNTED = { ...NONE, 'within limit': 50, 'over limit': 20 }
const LIMIT = { passed: 3_000, least: 2_900, most: 3_100 }

function createRun(change: Partial<SoakResult> = {}): SoakResult {
  return {
    measuredPerSec: 100,
    ratePerSec: 70,
    seconds: SECONDS,
    samples: Array.from({ length: SECONDS }, (_, sec) => ({
      ...{
        sec,
        seconds: 1,
        counts: COUNTED,
        p99Ms: 3,
        broken: 0,
        brokenExample: 'policy deny: late',
        lagMs: 1,
        pauseMs: 4,
      },
      process: { rssBytes: 2e8, descriptors: 60, threads: 9 },
    })),
    threads: Array.from({ length: SECONDS }, (_, sec) => ({
      ...{ sec, heapBytes: 5e7, externalBytes: 3e7, mainDelayMs: 1, workerDelayMs: 2 },
    })),
    faults: Array.from({ length: 29 }, (_, i) => createFault(i)),
    ...{
      othersBefore: 0,
      limit: LIMIT,
      decisions: 126_000,
      dropped: 0,
      unanswered: 0,
      warmSec: 0.3,
      givenUpExcused: 0,
      errors: {},
      exitCode: 0,
    },
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
    isRestart: false,
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
const FAULTS = Array.from({ length: 29 }, (_, i) => createFault(i))
const isFault = (sec: number) => FAULTS.some(({ fromSec, toSec }) => sec > fromSec && sec <= toSec)
const answersWith = (change: (sec: number) => Partial<Sample>) =>
  createRun().samples.map((sample) => ({ ...sample, ...change(sample.sec) }))
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
  ['memory in faults', { samples: samplesWith((sec) => (isFault(sec) ? { rssBytes: 8e9 } : {})) }, /^resident memory, highest above the first span: 7438.7; 512.0 are permitted$/],
  ['descriptors in faults', { samples: samplesWith((sec) => (isFault(sec) ? { descriptors: 50_000 } : {})) }, /^descriptors, highest above the first span: 49940.0; 500.0 are permitted$/],
  ['delay of workers, always', { threads: threadsWith(() => ({ workerDelayMs: 900 })) }, /^event loop delay, slowest worker, median in quiet spans: 900.0 ms; 50.0 are permitted$/],
  ['delay of main, always', { threads: threadsWith(() => ({ mainDelayMs: 51 })) }, /^event loop delay, main, median in quiet spans: 51.0 ms; 50.0 are permitted$/],
  ['slow, always', { samples: answersWith(() => ({ p99Ms: 9_000 })) }, /^p99 of the time to an answer, median in quiet spans: 9000.0 ms; 50.0 are permitted$/],
  ['slow after the first span', { samples: answersWith((sec) => ({ p99Ms: sec < 60 ? 8 : 25 })) }, /^p99 of the time to an answer, median in quiet spans: 25.0 ms; 24.0 are permitted$/],
  ['no answers', { samples: answersWith(() => ({ p99Ms: null })) }, /^p99 of the time to an answer, median in quiet spans: Infinity ms; 50.0 are permitted$/],
  ['every answer failed', { samples: answersWith(() => ({ counts: { ...NONE, failed: 70 } })) }, /^answers in quiet spans not by the store: 1000.0 of 1,000; 1.0 are permitted$/],
  ['a policy still answers some', { samples: answersWith(() => ({ counts: { ...COUNTED, local: 1 } })) }, /^answers in quiet spans not by the store: 14.1 of 1,000; 1.0 are permitted$/],
  ['a policy fails', { samples: answersWith((sec) => ({ broken: sec === 65 ? 2 : 0 })) }, /^2 calls failed although their policy answers, or were answered by another policy, first at 65 s \(policy deny: late\)$/],
  ['a limit is exceeded', { limit: { ...LIMIT, passed: 3_101 } }, /^3101 calls of one counter passed; its limits allow 3100$/],
  ['refused while there is room', { limit: { ...LIMIT, passed: 2_899 } }, /^2899 calls of one counter passed; its limits had room for 2900$/],
  ['a crash', { exitCode: null }, /^the service ended with exit code null$/],
])('%s', (_, change, problem) => {
  expect(judge(createRun(change)).problems).toEqual([expect.stringMatching(problem)])
})

// biome-ignore format: a table
test.each<[string, (sec: number) => Partial<Sample>, string[]]>([
  ['calls are late', () => ({ lagMs: 21 }), ['calls were made 21.0 ms late (p99)']],
  ['pauses', (sec) => ({ pauseMs: sec % 10 === 0 ? 25 : 4 }), ['no core was free for 25 ms in 150 of 1359 quiet samples']],
  ['late in faults', (sec) => (isFault(sec) ? { lagMs: 900, pauseMs: 900 } : {}), []],
  ['a few pauses', (sec) => (sec % 60 === 30 ? { lagMs: 900, pauseMs: 900 } : {}), []],
])('a busy machine: %s', (_, change, unjudged) => {
  const slow = {
    faults: faultsWith({ backMs: 9_000 }),
    threads: threadsWith((sec) => ({ workerDelayMs: 60 + sec / 100 })),
  }
  const samples = answersWith((sec) => ({ ...change(sec), p99Ms: 900 }))
  const verdict = judge(createRun({ samples, ...slow }))
  expect(verdict.unjudged).toEqual(unjudged)
  expect(verdict.problems).toHaveLength(unjudged.length === 0 ? 4 : 0)
  const worse = judge(createRun({ samples, ...slow, unanswered: 2, limit: { ...LIMIT, passed: 9_000 } }))
  expect(worse.problems.slice(-2), 'what does not depend on time is judged').toEqual(
    unjudged.length === 0 ? [expect.any(String), expect.any(String)] : [
      '2 calls were not answered',
      '9000 calls of one counter passed; its limits allow 3100',
    ],
  )
  expect(formatVerdict(createRun({ samples, ...slow }), verdict)).not.toContain('passed\n')
})

test('calls may fail until the service is warm, not later', () => {
  const samples = answersWith((sec) => ({ broken: sec <= 2 ? 1 : 0 }))
  expect(judge(createRun({ samples })).problems).toEqual([])
  expect(
    judge(createRun({ samples: answersWith((sec) => ({ broken: sec === 4 ? 1 : 0 })) })).problems,
  ).toEqual([expect.stringContaining('first at 4 s')])
})

test('a service that is gone, and a run that is too short', () => {
  const samples = createRun().samples.map((sample) => ({ ...sample, process: null }))
  expect(judge(createRun({ samples })).problems).toContain('the service ended')
  const { problems } = judge(createRun({ faults: [createFault(0), createFault(1)] }))
  expect(problems).toHaveLength(7)
  for (const problem of problems) expect(problem).toMatch(/fewer than 6 quiet spans to compare; run longer$/)
})

test('what policies answer in faults, the calls of a thread that ended, and a store that counts late are no problem', () => {
  const samples = answersWith((sec) => ({
    counts: isFault(sec) ? { ...NONE, local: 70 } : COUNTED,
    broken: sec === 485 ? 2 : 0,
  }))
  expect(
    judge(createRun({ samples, faults: faultsWith({ isRestart: true }), limit: null })).problems,
  ).toEqual([])
})

test('a run without a quiet span before its first fault has nothing to compare with', () => {
  const faults = [createFault(0, { fromSec: 0.5, toSec: 70 }), ...createRun().faults.slice(1)]
  expect(judge(createRun({ faults })).problems).toEqual([
    'no sample was taken before the first fault, so the later ones cannot be compared',
  ])
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
