/** Durations in Go's format, and texts of errors (spec 9.3, 9.5). */
import { expect, test } from 'vitest'
import { errorText, goDuration } from '../../../engine/stores/connect-retry.ts'

// biome-ignore format: the columns are the specification
const durations = [
  [        0, '0s'],
  [      0.4, '0s'],
  [      125, '125ms'],
  [    999.6, '1s'],
  [    1_000, '1s'],
  [    1_500, '1.5s'],
  [    1_002, '1.002s'],
  [   60_000, '1m0s'],
  [   90_250, '1m30.25s'],
  [3_600_000, '1h0m0s'],
  [5_025_000, '1h23m45s'],
] as const

for (const [ms, text] of durations) test(`${ms} ms is ${text}`, () => expect(goDuration(ms)).toBe(text))

test('an error without a message is shown by its code', () => {
  expect(errorText(Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }))).toBe('ECONNREFUSED')
  expect(errorText('text')).toBe('text')
})
