import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { summarize } from '../../../scripts/dev/test-summary.mjs'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const PROGRAM = new URL('../../../scripts/dev/test-summary.mjs', import.meta.url).pathname

function toResult(passed: number, failed: number, pending: number, todo: number): string {
  const numTotalTests = passed + failed + pending + todo
  return JSON.stringify({
    numTotalTests,
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: pending,
    numTodoTests: todo,
  })
}

// biome-ignore format: a table
const cases: [string, string, number, string][] = [
  ['all passed',                          toResult(5355, 0, 44, 0), 0, '5355 passed, 0 failed, 44 skipped'],
  ['some failed',                         toResult(10, 2, 1, 0),   1, '10 passed, 2 failed, 1 skipped'],
  ['todo counts as skipped',              toResult(1, 0, 2, 3),     0, '1 passed, 0 failed, 5 skipped'],
  ['failed outside of any test',          toResult(7, 0, 0, 0),    1, '7 passed, 1 failed, 0 skipped'],
  ['no result',                           '', 0,                           '0 passed, 1 failed, 0 skipped'],
  ['half a result',                       '{"numPassedTests": 3', 0,       '0 passed, 1 failed, 0 skipped'],
  ['something else',                      '[]', 0,                         '0 passed, 1 failed, 0 skipped'],
  ['null',                                'null', 0,                       '0 passed, 1 failed, 0 skipped'],
  ['counts that are not numbers',         '{"numPassedTests":"9"}', 0,     '0 passed, 1 failed, 0 skipped'],
]

test.each(cases)('%s', (_, json, exitCode, line) => {
  expect(summarize(json, exitCode)).toBe(line)
})

test('as a program: one line on standard output, from the file or without one', () => {
  const folder = makeTemporaryFolder()
  const file = join(folder, 'result.json')
  writeFileSync(file, toResult(3, 0, 1, 0))
  expect(execFileSync(process.execPath, [PROGRAM, file, '0'], { encoding: 'utf8' })).toBe(
    '3 passed, 0 failed, 1 skipped\n',
  )
  expect(
    execFileSync(process.execPath, [PROGRAM, join(folder, 'missing.json'), '1'], { encoding: 'utf8' }),
  ).toBe('0 passed, 1 failed, 0 skipped\n')
})
