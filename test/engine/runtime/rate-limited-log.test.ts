import { expect, test, vi } from 'vitest'
import {
  logOncePerMinute,
  RateLimitedLogByKind,
  rateLimitedLog,
} from '../../../engine/runtime/rate-limited-log.ts'

/** A clock that moves only when a test moves it. */
function createClock(nowMs = 0) {
  const lines: string[] = []
  const clock = { lines, nowMs, write: (line: string) => void lines.push(line), now: () => clock.nowMs }
  return clock
}

test('a number of lines passes per second, and the next line has the number left out', () => {
  const clock = createClock(5_000)
  const log = rateLimitedLog(clock.write, 2, 1_000, clock.now)
  for (const line of ['a', 'b', 'c', 'd']) log(line)
  clock.nowMs += 999
  log('e')
  expect(clock.lines).toEqual(['a', 'b'])
  clock.nowMs += 1
  for (const line of ['f', 'g', 'h']) log(line)
  expect(clock.lines).toEqual(['a', 'b', 'f (3 more were left out)', 'g'])
  clock.nowMs -= 60_000 // the clock was set back: a new window
  log('i')
  expect(clock.lines.at(-1)).toBe('i (1 more were left out)')
})

test('7.3: a lasting failure is one line per minute', () => {
  const clock = createClock()
  const log = logOncePerMinute(clock.write, clock.now)
  for (const line of ['a', 'b', 'c']) log(line)
  clock.nowMs += 59_999
  log('d')
  clock.nowMs += 1
  for (const line of ['e', 'f']) log(line)
  expect(clock.lines).toEqual(['a', 'e (3 more were left out)'])
})

test('the text of a line that is left out is not made', () => {
  const clock = createClock()
  const log = rateLimitedLog(clock.write, 1, 1_000, clock.now)
  const text = vi.fn(() => 'a')
  log(text)
  log(text)
  expect([clock.lines, text.mock.calls.length]).toEqual([['a'], 1])
})

test('each kind has its own limit; beyond the maximum, further kinds share one', () => {
  const clock = createClock()
  const logs = new RateLimitedLogByKind(clock.write, 2, 1_000, clock.now)
  for (const kind of ['a', 'a', 'b', 'c', 'd', 'b', 'e']) logs.log(kind, kind)
  expect(clock.lines).toEqual(['a', 'b', 'c'])
  clock.nowMs += 1_000
  for (const kind of ['a', 'b', 'e', 'c']) logs.log(kind, kind)
  expect(clock.lines.slice(3)).toEqual([
    'a (1 more were left out)',
    'b (1 more were left out)',
    'e (2 more were left out)',
  ])
  logs.clear()
  logs.log('a', 'a')
  expect(clock.lines.at(-1)).toBe('a')
})
