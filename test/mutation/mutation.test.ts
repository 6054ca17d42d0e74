/** The parts of `npm run mutation` that judge what Stryker reports. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type Mutant, shorten, toChange } from './mutant.ts'
import { chooseSample } from './sample.ts'
import { SCOPES, selectRuns } from './scopes.ts'
import { confidenceInterval, countScore, killedShare } from './score.ts'
import { compareSurvivors, type Entry, type Judged, parseSurvivors } from './survivors.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

function createMutant(line: number, column: number, endColumn: number, replacement: string): Mutant {
  const location = { start: { line, column }, end: { line, column: endColumn } }
  return { fileName: '/a.ts', mutatorName: 'X', replacement, location, status: 'Survived' }
}

test('a mutant is its line before and after, without indentation and comment', () => {
  const source = 'first\n  if (a  <  b) return // a comment\n  { x\n  }'
  const change = toChange(source, createMutant(2, 7, 14, 'a <= b'))
  expect(change).toEqual({ lineNumber: 2, line: 'if (a < b) return', mutant: 'if (a <= b) return' })
  const block = createMutant(3, 3, 0, '{}')
  block.location.end = { line: 4, column: 4 }
  expect(toChange(source, block)).toEqual({ lineNumber: 3, line: '{ x', mutant: '{}' })
})

test('a sample has so many mutants of each file, the same for a seed, others for another', () => {
  const mutants = Array.from({ length: 200 }, (_, i) => createMutant(i + 1, 1, 2, 'x'))
  for (const [i, mutant] of mutants.entries()) mutant.fileName = i < 5 ? '/few.ts' : '/many.ts'
  const chosen = [...chooseSample(mutants, 20, 1)]
  expect(chosen.filter(({ fileName }) => fileName === '/few.ts')).toHaveLength(5)
  expect(chosen).toHaveLength(25)
  expect([...chooseSample(mutants.toReversed(), 20, 1)].toSorted(byLine)).toEqual(chosen.toSorted(byLine))
  expect([...chooseSample(mutants, 20, 2)].toSorted(byLine)).not.toEqual(chosen.toSorted(byLine))
})

function byLine(a: Mutant, b: Mutant): number {
  return a.location.start.line - b.location.start.line
}

describe('score', () => {
  test('time-outs are killed; mutants that no test calls survive; others do not count', () => {
    const score = countScore(['Killed', 'Killed', 'Timeout', 'Survived', 'NoCoverage', 'RuntimeError', 'x'])
    expect(score).toEqual({ mutants: 7, ran: 5, killed: 2, timeouts: 1, survived: 2 })
    expect(killedShare(score)).toBe(0.6)
  })

  // biome-ignore format: a table
  test.each([
    // mutants, ran, survived → low, high (Wilson, n corrected for a finite population)
    [ 100, 100,  10, 0.9,   0.9  ],
    [1e9,  100,  10, 0.826, 0.945],
    [1e9,   10,   0, 0.722, 1    ],
    [ 200, 100,  10, 0.850, 0.934],
    [   5,   0,   0, 0,     1    ],
  ])('%i mutants, of %i %i survive', (mutants, ran, survived, low, high) => {
    const interval = confidenceInterval({ mutants, ran, killed: ran - survived, timeouts: 0, survived })
    expect(interval[0]).toBeCloseTo(low, 3)
    expect(interval[1]).toBeCloseTo(high, 3)
  })
})

describe('survivors.yaml', () => {
  const judged = (line: string, mutant: string, status: string): Judged => ({
    change: { lineNumber: 1, line, mutant },
    status,
  })
  const mutants = [
    judged('a', 'a1', 'Survived'),
    judged('a', 'a2', 'NoCoverage'),
    judged('b', 'b1', 'Killed'),
    judged('b', 'b2', 'not in the sample'),
    judged('c', 'c1', 'Timeout'),
  ]
  // biome-ignore format: a table
  const cases: [string, Partial<Entry>[], string[], string[]][] = [
    ['nothing listed',               [],                           ['a1', 'a2'], []   ],
    ['one mutant',                   [{ line: 'a', mutant: 'a1' }], ['a2'],       []   ],
    ['every mutant of a line',       [{ line: 'a' }],               [],           []   ],
    ['a line that is gone',          [{ line: 'a' }, { line: 'z' }], [],          ['z']],
    ['a mutant that is gone',        [{ line: 'a' }, { line: 'c', mutant: 'c2' }], [], ['c']],
    ['killed by now',                [{ line: 'a' }, { line: 'c' }], [],          ['c']],
    ['one killed, one did not run',  [{ line: 'a' }, { line: 'b' }], [],          []   ],
    ['killed, another did not run',  [{ line: 'a' }, { line: 'b', mutant: 'b1' }], [], ['b']],
  ]

  test.each(cases)('%s', (_, entries, unlisted, stale) => {
    const result = compareSurvivors(
      mutants,
      entries.map((entry) => ({ line: '', why: 'x', ...entry })),
    )
    expect(result.unlisted.map(({ change }) => change.mutant)).toEqual(unlisted)
    expect(result.stale.map(({ line }) => line)).toEqual(stale)
  })

  test.each(['a.ts: [{line: x}]', 'a.ts: [{line: x, why: ""}]', 'a.ts: [{line: x, why: y, reason: z}]'])(
    'refused: %s',
    (text) => {
      expect(() => parseSurvivors(text)).toThrow('survivors.yaml, a.ts: an entry needs line and why')
    },
  )

  test('every entry is about a line of its source', () => {
    const text = readFileSync(new URL('survivors.yaml', import.meta.url), 'utf8')
    const gone = [...parseSurvivors(text)].flatMap(([file, entries]) => {
      const lines = readFileSync(ROOT + file, 'utf8')
        .split('\n')
        .map(shorten)
      return entries.filter(({ line }) => !lines.includes(line)).map(({ line }) => `${file}: ${line}`)
    })
    expect(gone).toEqual([])
  })

  test('by file', () => {
    expect(parseSurvivors('a.ts: [{line: x, why: y}]').get('a.ts')).toEqual([{ line: 'x', why: 'y' }])
    expect(parseSurvivors('').size).toBe(0)
  })
})

describe('scopes', () => {
  test('every file is in one scope; its tests exist', () => {
    const files = selectRuns(ROOT, []).flatMap((run) => run.files)
    expect(files.length).toBe(new Set(files).size)
    for (const [run] of SCOPES.map(({ files: [glob] }) =>
      selectRuns(ROOT, [], [{ name: '', files: [glob], tests: [] }]),
    ))
      expect(run.files).not.toEqual([])
  })

  test('a folder or a file', () => {
    const [run, ...others] = selectRuns(ROOT, ['./engine/stores/tls.ts'])
    expect([run.scope, run.files, others]).toEqual(['engine/stores', ['engine/stores/tls.ts'], []])
    expect(run.tests).toContain('test/engine/stores/redis/tls.test.ts')
    expect(selectRuns(ROOT, ['engine/stores/']).map(({ scope }) => scope)).toContain('engine/stores/redis')
  })

  test('lines of a file', () => {
    const [run] = selectRuns(ROOT, ['engine/stores/tls.ts:1-20', './engine/stores/tls.ts:30-40'])
    expect(run.files).toEqual(['engine/stores/tls.ts'])
    expect(run.mutate).toEqual(['engine/stores/tls.ts:1-20', 'engine/stores/tls.ts:30-40'])
  })

  test('a path that selects nothing', () => {
    expect(() => selectRuns(ROOT, ['engine/decision', 'engine/stats'])).toThrow('engine/stats is not mutated')
  })
})
