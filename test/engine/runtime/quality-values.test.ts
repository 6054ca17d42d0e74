import { expect, test } from 'vitest'
import { parseQualityValues } from '../../../engine/runtime/quality-values.ts'

// biome-ignore format: a table
const cases: [header: string, weights: Record<string, number>][] = [
  ['',                            {}],
  [' , ,',                        {}],
  ['gzip',                        { gzip: 1 }],
  ['GZIP, Br;Q=0.5',              { gzip: 1, br: 0.5 }],
  ['zh-CN;q=0.9 , en ; q=0',      { 'zh-cn': 0.9, en: 0 }],
  ['a;level=1;q=0.2',             { a: 0.2 }],
  ['a;q=',                        { a: 0 }],
  ['a;q=x, b;q=-1, c;q=2',        { a: 0, b: 0, c: 0 }],
  ['a;q=1, a;q=0',                { a: 0 }],
]

test.each(cases)('%s', (header, weights) => {
  expect(Object.fromEntries(parseQualityValues(header))).toEqual(weights)
})

test('at most 32 elements of 512 characters are read, none of them in part', () => {
  expect(parseQualityValues(Array.from({ length: 99 }, (_, i) => `a${i}`).join(',')).size).toBe(32)
  const [first, long] = ['x'.repeat(500), 'y'.repeat(20)]
  expect([...parseQualityValues(`${first},${long};q=0.5`).keys()]).toEqual([first])
  expect(parseQualityValues('z'.repeat(15_000)).size).toBe(0)
})
