/** The short form of `npm run soak`: each fault has an effect and passes. It waits for events alone. */
import { expect, test } from 'vitest'
import { KINDS } from './soak/load.ts'
import { drawSoak } from './soak/picture.ts'
import { runSoak } from './soak/run.ts'
import { judge } from './soak/verdict.ts'

const FAULTS = [
  'Redis killed',
  'Redis stopped',
  'rules broken',
  'clients vanish',
  'connections to the store cut',
  'Redis per second killed',
  'worker crash',
]

test('under load with one fault after the other all calls are answered, and counted again after each', async () => {
  const result = await runSoak({
    ...{ store: 'redis', workers: 1, ratePerSec: 400, share: 0, measureMs: 0, sampleMs: 100 },
    ...{ rules: 10, connections: 1, minuteKeys: 'hot', secondKeys: 'uniform:1000000' },
    pace: { kind: 'events', names: FAULTS },
    env: { REDIS_OPERATION_TIMEOUT: '200ms', REDIS_PERSECOND_OPERATION_TIMEOUT: '200ms' },
    report: () => {},
  })
  expect(result.faults.map(({ name, isSeen, isOver }) => ({ name, isSeen, isOver }))).toEqual(
    FAULTS.map((name) => ({ name, isSeen: true, isOver: true })),
  )
  expect(result).toMatchObject({ dropped: 0, unanswered: 0, exitCode: 0 })
  const total = (kind: (typeof KINDS)[number]) =>
    result.samples.reduce((sum, { counts }) => sum + counts[kind], 0)
  for (const kind of KINDS) expect(total(kind), kind).toBeGreaterThan(0)
  const timed = /quiet spans|before the first fault|did not count for|although their policy/ // bounds and excuses of so many seconds are for the command
  expect(judge(result).problems.filter((problem) => !timed.test(problem))).toEqual([])
  expect(drawSoak(result, judge(result))).toContain(`${FAULTS.length} faults</title>`)
})
