import { expect, onTestFinished, test } from 'vitest'
import { standStill } from '../helpers/stand-still.ts'
import { History } from './history.ts'
import { LagMeter } from './lag.ts'
import { runLab } from './main.ts'
import { checkResources, ResourceMeter } from './resources.ts'
import type { LabOptions, Scenario } from './scenario.ts'
import type { Violation } from './violations.ts'

/** A scenario without a service. `asked` has the options of each run. */
function scenario(name: string, violations: Violation[], asked: LabOptions[] = []): Scenario {
  const counts = { ...new History().counts, calls: 7, decisions: 21 }
  const run = async (options: LabOptions) => {
    asked.push(options)
    return { counts, violations, rounds: 1, faults: 1, figures: { lag: '3 ms' } }
  }
  return { name, fault: 'a fault', promise: 'a promise', run }
}

async function runWith(args: string[], ...all: Scenario[]): Promise<{ code: number; text: string }> {
  const lines: string[] = []
  const code = await runLab(args, all, (text) => lines.push(text))
  return { code, text: lines.join('\n') }
}

const BROKEN: Violation[] = [{ invariant: 'admitted', count: 2, examples: ['11 of 10'] }]

test('a broken invariant: exit code 1, an example, and the command that repeats it', async () => {
  const { code, text } = await runWith(
    ['--seed', '7', '--rate', '50'],
    scenario('fine', []),
    scenario('bad', BROKEN),
  )
  expect(code).toBe(1)
  expect(text).toContain('bad: admitted was broken 2 times, for example:\n    11 of 10')
  expect(text).toContain('npm run test:faults -- --only bad --seed 7 --decisions 0 --seconds 1 --rate 50')
  expect(text).toMatch(/\| bad \|.*\| admitted 2 \|/)
  const cells = (line: RegExp) => line.exec(text)![0].split('|').length
  expect(cells(/^\| bad .*$/m)).toBe(cells(/^\| scenario .*$/m))
  expect(text).toContain('14 calls, 42 decisions in 2 scenarios, seed 7')
})

test('a scenario that cannot be run is an error; the others run', async () => {
  const run = () => Promise.reject(new Error('no redis-server'))
  const { code, text } = await runWith([], { ...scenario('bad', []), run }, scenario('fine', []))
  expect(code).toBe(1)
  expect(text).toMatch(/bad could not be run:\n {4}Error: no redis-server/)
  expect(text).toMatch(/\| fine \|.*\| - \|/)
})

test('all held: exit code 0; --only takes a name or the beginning of some; decisions are shared equally', async () => {
  const asked: LabOptions[] = []
  const all = ['redis', 'redis-a', 'redis-b', 'other'].map((name) => scenario(name, [], asked))
  expect((await runWith(['--only', 'redis', '--seed', '1'], ...all)).code).toBe(0)
  expect(asked).toHaveLength(1)
  const args = ['--only', 'redis-', '--decisions', '1001', '--seconds', '2', '--seed', '1']
  expect((await runWith(args, ...all)).code).toBe(0)
  expect(asked.slice(1)).toEqual(
    Array(2).fill(expect.objectContaining({ decisions: 501, faultMs: 2_000, seed: 1 })),
  )
})

test('a scenario that is skipped has no share of the decisions, and none of the run', async () => {
  const asked: LabOptions[] = []
  const skipped = { ...scenario('skipped', [], asked), skipReason: () => 'needs root' }
  const args = ['--decisions', '1000', '--seed', '3']
  const { code, text } = await runWith(
    args,
    scenario('one', [], asked),
    skipped,
    scenario('bad', BROKEN, asked),
  )
  expect(code).toBe(1)
  expect(asked.map(({ decisions }) => decisions)).toEqual([500, 500])
  expect(text).toContain('skipped: needs root')
  expect(text).toContain('14 calls, 42 decisions in 2 scenarios, seed 3')
  expect(text).toContain('--only bad --seed 3 --decisions 500 --seconds')
})

test.each([
  ['--rate', '1k'],
  ['--rate', '0'],
  ['--seed', 'x'],
  ['--seed', ''],
  ['--seconds', '1s'],
  ['--decisions', '1e6'],
  ['--decisions', '99999999999999999999'],
  ['--runs', '0'],
  ['--speed', '1'],
])('%s %s: the exit code 2, and the name of the flag', async (flag, value) => {
  const asked: LabOptions[] = []
  const { code, text } = await runWith([flag, value], scenario('one', [], asked))
  expect(code).toBe(2)
  expect(text).toContain(flag)
  expect(asked).toEqual([])
})

test('--list names all; an unknown name is an error', async () => {
  const list = await runWith(['--list'], scenario('one', []), scenario('two', []))
  expect(list).toEqual({ code: 0, text: 'one\n    a fault\n    a promise\ntwo\n    a fault\n    a promise' })
  expect((await runWith(['--only', 'no'], scenario('one', []))).code).toBe(1)
})

test('a thread that stood still was late', async () => {
  const meter = new LagMeter()
  onTestFinished(() => meter.stop())
  const startMs = performance.now()
  standStill(80)
  const endMs = performance.now()
  expect(meter.maxBetween(startMs, endMs), 'before the timer runs').toBeGreaterThan(70)
  await new Promise((resolve) => setTimeout(resolve, 0))
  await new Promise((resolve) => setTimeout(resolve, 10))
  expect(meter.maxBetween(startMs, endMs)).toBeGreaterThan(70)
  expect(meter.maxBetween(startMs - 60_000, startMs - 59_000), 'long before').toBeLessThan(70)
})

test('a process that grows or opens too many files is reported', () => {
  const meter = new ResourceMeter(process.pid)
  meter.stop()
  const { first } = meter
  expect(first.rssBytes).toBeGreaterThan(10 * 2 ** 20)
  expect(first.descriptors).toBeGreaterThan(2)
  const texts: string[] = []
  const check = (rssBytes: number, descriptors: number) =>
    checkResources(
      { first, most: { rssBytes: first.rssBytes + rssBytes, descriptors: first.descriptors + descriptors } },
      2 ** 20,
      (invariant, text) => texts.push(`${invariant}: ${text}`),
    )
  check(2 ** 20, 64)
  expect(texts).toEqual([])
  check(3 * 2 ** 20, 65)
  expect(texts).toEqual([
    'resources: the service grew by 3 MiB, at most 1',
    'resources: the service opened 65 more file descriptors',
  ])
})
