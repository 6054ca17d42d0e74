import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { History } from './history.ts'
import { updateTable } from './lab-table.ts'
import { loadScenarios } from './main.ts'
import type { Outcome, Scenario } from './scenario.ts'

const DOCUMENT = new URL('../../docs/reliability.md', import.meta.url)
const EMPTY = 'before\n<!-- fault lab -->\n<!-- /fault lab -->\nafter\n'

function scenario(name: string): Scenario {
  return {
    name,
    fault: `fault ${name}`,
    promise: `promise ${name}`,
    run: () => Promise.reject(new Error('not run')),
  }
}

function outcomes(...slowestMs: number[]): Outcome[] {
  return slowestMs.map((ms) => ({
    counts: {
      ...new History().counts,
      calls: 200,
      failed: 1,
      degraded: { allow: ms, local: 1 },
      slowestMs: ms,
      slowestBackMs: 2.6,
    },
    ...{ violations: [], rounds: 1, faults: 1, figures: {} },
  }))
}

test('a row has median and worst of the runs; rows that were not run keep their figures', () => {
  const all = [scenario('a'), scenario('b')]
  const first = updateTable(EMPTY, all, new Map([['a', outcomes(30, 10, 20, 50, 40)]]))
  expect(first.split('\n')).toEqual([
    ...['before', '<!-- fault lab -->'],
    ...[expect.stringContaining('| fault |'), '|---|---|---|---|---|---|'],
    '| fault a | promise a | 16 % (26 %) | 30 ms (50 ms) | 3 ms (3 ms) | `a` |',
    '| fault b | promise b | not measured | | | `b` |',
    ...['<!-- /fault lab -->', 'after', ''],
  ])
  const second = updateTable(first, all, new Map([['b', outcomes(1, 1, 1, 1, 1)]]))
  expect(second).toContain('| fault a | promise a | 16 % (26 %) | 30 ms (50 ms) | 3 ms (3 ms) | `a` |\n')
  expect(second).toContain('| fault b | promise b | 2 % (2 %) | 1 ms (1 ms) | 3 ms (3 ms) | `b` |\n')
  expect(updateTable(second, all, new Map())).toBe(second)
})

test('a document without the markers is an error', () => {
  expect(() => updateTable('text', [], new Map())).toThrow('<!-- fault lab -->')
})

test('docs/reliability.md has a row per scenario, in the words of the scenario', async () => {
  const text = readFileSync(DOCUMENT, 'utf8')
  expect(updateTable(text, await loadScenarios(), new Map())).toBe(text)
})
