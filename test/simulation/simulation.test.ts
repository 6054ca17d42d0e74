/** A small number of schedules, from a new base seed each time: every seed must hold, and a failure prints the command that repeats it. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { size } from '../helpers/size.ts'
import { Violation } from './oracle.ts'
import { drawPlan, type Plan } from './plan.ts'
import { runSchedule } from './schedule.ts'
import { describeFailure, shrink } from './shrink.ts'

const SEEDS_MAX = 2 ** 31
const TEST_MS_MAX = 3_600_000 // 5 s of processor time, however long the machine takes to give it

test(
  'every invariant holds in every schedule',
  async () => {
    const base = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * SEEDS_MAX))
    const count = size({ small: 200, full: 5_000 })
    for (let i = 0; i < count; i++) {
      const seed = (base + i) % SEEDS_MAX
      const { violation } = await runSchedule(drawPlan(seed))
      if (violation !== null) expect.fail(await describeFailure(seed, violation))
    }
  },
  TEST_MS_MAX,
)

test.each([1, 2, 3, 7, 11])('seed %i takes the same course each time', async (seed) => {
  const traces: string[][] = []
  for (let i = 0; i < 2; i++) {
    const lines: string[] = []
    await runSchedule(drawPlan(seed), (line) => lines.push(line.replace(/#\d+/g, '#'))) // connections are numbered on
    traces.push(lines)
  }
  expect(traces[0].length).toBeGreaterThan(10)
  expect(traces[1]).toEqual(traces[0])
})

test.each([
  ['--schedules', 'abc'],
  ['--schedules', '0'],
  ['--jobs', '1.5'],
  ['--seed', ''],
  ['--one', 'x'],
])('%s "%s" is an error, not a run of nothing', (flag, value) => {
  const program = fileURLToPath(new URL('main.ts', import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, flag, value], { encoding: 'utf8' })
  expect(stderr).toContain(`${flag} ${value}: write a whole number of at least `)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})

test('a failing plan is made smaller while it fails in the same way', async () => {
  const plan = drawPlan(14)
  const [first] = plan.faults
  const fault = { ...first, kind: 'evict' as const }
  const four = { ...plan, faults: [first, first, fault, first] }
  const run = async ({ faults, calls }: Plan) => {
    const isFailing = faults.includes(fault) && calls.length >= 17
    return { violation: isFailing ? new Violation('wanted', 'text') : new Violation('another', 'text') }
  }
  expect(four.calls.length).toBeGreaterThan(17)
  expect(await shrink(four, 'wanted', run)).toEqual({ faults: [2], callsCount: 17 })
})
