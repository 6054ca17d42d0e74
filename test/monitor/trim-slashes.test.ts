import { expect, test } from 'vitest'
import { trimEndSlashes } from '../../monitor/trim-slashes.ts'

// biome-ignore format: a table
const cases = [
  ['',       ''],
  ['/',      ''],
  ['///',    ''],
  ['/a',     '/a'],
  ['//a//',  '//a'],
  ['/a/b/',  '/a/b'],
]
for (const [path, trimmed] of cases) {
  test(`"${path}" is "${trimmed}"`, () => expect(trimEndSlashes(path)).toBe(trimmed))
}
