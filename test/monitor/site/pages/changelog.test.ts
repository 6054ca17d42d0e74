/** Headings of the entries of the changelog. */
import { expect, test } from 'vitest'
import { readChangelog } from '../../../../monitor/api/changelog.ts'
import { summarize } from '../../../../monitor/site/pages/changelog.ts'

test.each([
  ['First version of the API. It answers already.', 'First version of the API'],
  [
    'GET /api/v1/codes lists every code of errors, causes, caps.',
    'GET /api/v1/codes lists every code of errors, causes, caps',
  ],
  ['`a.b, c: d` says whether. More', '`a.b, c: d` says whether'],
  [
    'one two three four five six seven eight nine ten eleven twelve thirteen fourteen, fifteen',
    'one two three four five six seven eight nine ten eleven twelve thirteen fourteen …',
  ],
  ['', ''],
  ['a ` b', 'a'],
])('%s', (text, heading) => {
  expect(summarize(text)).toBe(heading)
})

test('every entry has a heading of its own, with whole code spans', () => {
  const headings = readChangelog().map(({ text }) => summarize(text))
  expect(new Set(headings).size).toBe(headings.length)
  for (const heading of headings) {
    expect(heading.length).toBeGreaterThan(10)
    expect(heading.split('`').length % 2).toBe(1)
  }
})
