/** The scanner, the diagnostics of `npm run check`, and the cost of every regular expression of the sources on hostile texts. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: sources, as text
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { TEXT_CHARS_MAX } from '../../../scripts/dev/pattern-list.ts'
import {
  checkPatterns,
  findNote,
  findPatterns,
  findPatternsBelow,
  PATTERN_FOLDERS,
  toRegExp,
} from '../../../scripts/dev/patterns.ts'
import { findWorstCost, MULTIPLE_MAX } from '../../helpers/pattern-cost.ts'

const SEARCH_MS_MAX = 300_000 // for one expression; most take 10 ms, 0.1 s in full size
const root = fileURLToPath(new URL('../../..', import.meta.url))
const all = findPatternsBelow(root, PATTERN_FOLDERS)

describe('the scanner', () => {
  // biome-ignore format: a table
  const sources = [
    // source, the expressions in it
    ['const A = /a+/g',                        ['/a+/g']],
    ['a / b / c',                              []],
    ['f(x) / 2 // a/b/',                       []],
    ['x[0] / y / z',                           []],
    ['/* /a/ */ // /b/',                       []],
    [`'/a/' + "/b/"`,                          []],
    ['`/a/ ${/b/.test(`${/c/}`)} /d/`',        ['/b/', '/c/']],
    ['`${{ a: { b: 1 } }}` / 2 / 1',           []],
    ['return /[/]\\/[\\]/]/.test(x)',          ['/[/]\\/[\\]/]/']],
    ['a ? /b/ : !/c/u',                        ['/b/', '/c/u']],
    ['if (a) /b/.test(c)',                     ['/b/']],
    ['text.split(/,/)',                        ['/,/']],
    ['new RegExp(`^${f(a)}$`, "u").test(b)',   ['new RegExp(`^${f(a)}$`, "u")']],
    ["text.match('a+')",                       ["text.match('a+')"]],
    ['text.match(KNOWN)',                      []],
  ] as const
  for (const [source, texts] of sources) {
    test(source, () => expect(findPatterns('a.ts', source).map(({ text }) => text)).toEqual(texts))
  }

  test('returns the line, and whether an expression is matched repeatedly', () => {
    const found = findPatterns('a.ts', 'f(\n  /a/,\n  /b/y,\n  c.split(/d/),\n)')
    expect(found.map(({ line, isRepeated }) => [line, isRepeated])).toEqual([
      [2, false],
      [3, true],
      [4, true],
    ])
  })
})

describe('npm run check', () => {
  const [built] = findPatterns('monitor/a.ts', 'new RegExp(text)')

  test('finds nothing in this repository', () => expect(checkPatterns(all)).toEqual([]))

  test('reports a built expression that is not listed', () => {
    expect(checkPatterns([built], [])).toEqual([
      'monitor/a.ts:1: builds new RegExp(text), which the hostile-input test cannot see. List it in scripts/dev/pattern-list.ts.',
    ])
  })

  test('reports an entry whose expression is gone', () => {
    const notes = [
      { file: 'monitor/a.ts', text: 'new RegExp(text)', trusted: 'a setting' },
      { file: 'monitor/b.ts', text: '/a+$/', trusted: 'a setting' },
    ]
    expect(checkPatterns([built], notes)).toEqual([
      'scripts/dev/pattern-list.ts: lists /a+$/ of monitor/b.ts, which does not exist. Remove the entry, or correct its text.',
    ])
  })
})

describe('the measure finds', () => {
  // biome-ignore format: a table
  const slow = [
    /\s+$/,
    /a.*b.*c/,
    /^(?:\w+-?)+$/, // exponential
    /\b([\w-]+\.openai\.azure\.com)\b/gi,
    /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?;?[ \t]*$/i,
    /"[^,]*"$/,
    /<title>.*veloera/s,
    /<meta name="generator" content="a name so long that restarts are rare">.*version/s,
  ] as const
  for (const pattern of slow) {
    test(String(pattern), { timeout: SEARCH_MS_MAX }, () => {
      const { multiple } = findWorstCost(pattern, { charsMax: TEXT_CHARS_MAX, isRepeated: pattern.global })
      expect(multiple).toBeGreaterThan(MULTIPLE_MAX)
    })
  }
})

describe(`on hostile texts up to ${TEXT_CHARS_MAX} characters costs at most ${MULTIPLE_MAX} times a loop over them`, () => {
  const tested = new Set<string>()
  for (const found of all) {
    const note = findNote(found)
    if (note && 'trusted' in note) continue
    const expressions = note && 'built' in note ? note.built() : [toRegExp(found.text)]
    for (const expression of expressions) {
      const { file, line, isRepeated } = found
      const name = `${expression}${isRepeated ? ', repeated' : ''}`
      if (tested.has(name)) continue
      tested.add(name)
      test(`${file}:${line} ${name}`, { timeout: SEARCH_MS_MAX }, () => {
        const worst = findWorstCost(expression, { charsMax: TEXT_CHARS_MAX, isRepeated })
        expect(worst.multiple, JSON.stringify(worst)).toBeLessThan(MULTIPLE_MAX)
      })
    }
  }
})
