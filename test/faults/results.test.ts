import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { History } from './history.ts'
import { runLab } from './main.ts'
import type { Scenario } from './scenario.ts'
import type { Violation } from './violations.ts'

const BROKEN: Violation[] = [{ invariant: 'admitted', count: 2, examples: ['11 of 10'] }]
const TABLE = '<!-- fault lab -->\n<!-- /fault lab -->\n'

/** Its run with the seed `badSeed` breaks an invariant. */
function scenario(name: string, badSeed = -1): Scenario {
  const counts = { ...new History().counts, calls: 7, decisions: 21 }
  return {
    name,
    fault: `fault ${name}`,
    promise: `promise ${name}`,
    run: async ({ seed }) => {
      if (seed === 99) throw new Error('no redis-server')
      return { counts, violations: seed === badSeed ? BROKEN : [], rounds: 2, faults: 2, figures: {} }
    },
  }
}

function createFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-faults-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = (name: string) => join(folder, name)
  writeFileSync(file('table.md'), TABLE)
  return { file, list: () => readdirSync(folder).sort(), table: () => readFileSync(file('table.md'), 'utf8') }
}

async function runWith(args: string[], ...all: Scenario[]): Promise<{ code: number; text: string }> {
  const lines: string[] = []
  const code = await runLab(args, all, (text) => lines.push(text))
  return { code, text: lines.join('\n') }
}

test('a broken run does not end the others, and leaves no row; a repetition of it is joined, and the table is whole', async () => {
  const { file, list, table } = createFolder()
  const [all, part, joined] = ['all.json', 'part.json', 'joined.json'].map(file)
  const write = ['--write', file('table.md')]
  const first = await runWith(
    ['--runs', '5', '--seed', '10', '--json', all, ...write],
    scenario('a'),
    scenario('b', 12),
    scenario('c'),
  )
  expect(first.code).toBe(1)
  expect(first.text).toContain('105 calls, 315 decisions in 3 scenarios, seed 10')
  expect(first.text).toContain('15 runs, 30 faults; 2 violations in 1 runs; 0 runs could not be made')
  expect(table()).toMatch(/`a` \|\n\| fault b \| promise b \| not measured .*\n.*`c` \|/)

  const healed = [scenario('a'), scenario('b'), scenario('c')]
  expect((await runWith(['--only', 'b', '--seed', '12', '--json', part], ...healed)).code).toBe(0)
  const both = await runWith(['--join', all, part, '--json', joined, ...write], ...healed)
  expect(both.code).toBe(0)
  expect(both.text).toContain('b, seed 12: a later file has it, too, and replaces it')
  expect(both.text).toContain('admitted was broken 2 times')
  expect(both.text).toContain('15 runs, 30 faults; 0 violations in 0 runs')
  expect(table()).not.toContain('not measured')
  expect((await runWith(['--join', joined, '--join', part], ...healed)).text).toContain('15 runs, 30 faults')
  expect(list()).toEqual(['all.json', 'joined.json', 'part.json', 'table.md'])
})

test('a run that could not be made is in the file, with its reason, and counts as a failure when joined', async () => {
  const { file } = createFolder()
  expect((await runWith(['--seed', '98', '--runs', '2', '--json', file('a')], scenario('a'))).code).toBe(1)
  const { code, text } = await runWith(['--join', file('a')], scenario('a'))
  expect(code).toBe(1)
  expect(text).toMatch(/a could not be run:\n {4}Error: no redis-server/)
  expect(text).toContain('2 runs, 2 faults; 0 violations in 0 runs; 1 runs could not be made')
})

test('results of another rate do not join; files that have none are refused', async () => {
  const { file } = createFolder()
  await runWith(['--rate', '100', '--json', file('a')], scenario('a'))
  await runWith(['--rate', '200', '--json', file('b')], scenario('a'))
  const other = await runWith(['--join', file('a'), file('b')], scenario('a'))
  expect(other).toEqual({
    code: 2,
    text: expect.stringContaining('repeat one with the --seconds and --rate'),
  })
  writeFileSync(file('c'), '{"format":2}')
  const refused = await runWith(['--join', file('c')], scenario('a'))
  expect(refused).toEqual({
    code: 2,
    text: `${file('c')} has no results of the fault lab; --json writes such a file`,
  })
  expect((await runWith(['--join', file('none')], scenario('a'))).code).toBe(2)
  expect(await runWith(['part.json'], scenario('a'))).toEqual({
    code: 2,
    text: '"part.json" is not a flag; use --join to combine result files',
  })
})
