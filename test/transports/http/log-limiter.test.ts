import { expect, test } from 'vitest'
import { limitLines } from '../../../transports/http/log-limiter.ts'

test('so many lines a second, and the next one says what was left out', () => {
  const lines: string[] = []
  let now = 5_000
  const log = limitLines(
    (line) => lines.push(line),
    2,
    () => now,
  )
  for (const line of ['a', 'b', 'c', 'd']) log(line)
  now += 999
  log('e')
  expect(lines).toEqual(['a', 'b'])
  now += 1
  for (const line of ['f', 'g', 'h']) log(line)
  expect(lines).toEqual(['a', 'b', 'f (3 more were left out)', 'g'])
  now -= 60_000 // the clock was set back: no minute of silence
  log('i')
  expect(lines.at(-1)).toBe('i (1 more were left out)')
})
