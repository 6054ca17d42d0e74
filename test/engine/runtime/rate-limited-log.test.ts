import { expect, test } from 'vitest'
import { logOncePerMinute, rateLimitedLog } from '../../../engine/runtime/rate-limited-log.ts'

test('lines per second are bounded, and the next line says how many were left out', () => {
  const lines: string[] = []
  let now = 5_000
  const log = rateLimitedLog(
    (line) => lines.push(line),
    2,
    1_000,
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

test('7.3: a lasting failure is one line per minute', () => {
  const lines: string[] = []
  let now = 0
  const logLine = logOncePerMinute(
    (line) => lines.push(line),
    () => now,
  )
  for (const line of ['a', 'b', 'c']) logLine(line)
  now += 59_999
  logLine('d')
  now += 1
  for (const line of ['e', 'f']) logLine(line)
  expect(lines).toEqual(['a', 'e (3 more were left out)'])
})
