/** When a reply is looked for, and when not, on a clock of the test's. */
import { expect, test } from 'vitest'
import { Spin } from '../../../engine/counters/redis-spin.ts'

const TURN_MS = 2 ** -10 // sums of it are exact
const LONGEST_MS = 25 * TURN_MS

/** A spin whose event loop the test turns. */
function spinning(longestMs = LONGEST_MS) {
  let nowMs = 0
  let next: (() => void) | null = null
  const spin = new Spin(longestMs, {
    nowMs: () => nowMs,
    soon: (turn) => {
      next = turn
    },
  })
  /** One turn; false: nobody looks any more. */
  const step = () => {
    const turn = next
    if (turn === null) return false
    next = null
    nowMs += TURN_MS
    turn()
    return true
  }
  /** Trips of so many requests, one every `gap` turns; how long the last was looked for when its reply takes so long. */
  const trips = (times: number, gap: number, replyAfter = Number.POSITIVE_INFINITY, requests = 1) => {
    let turns = 0
    for (let i = 0; i < times; i++) {
      const startMs = nowMs
      spin.sent(requests)
      for (turns = 0; next !== null; turns++) {
        if (turns === replyAfter) spin.answered()
        step()
      }
      spin.answered()
      nowMs = Math.max(nowMs, startMs + gap * TURN_MS)
    }
    return turns
  }
  return {
    trips,
    step,
    sent: () => spin.sent(1),
    sleep: (ms: number) => {
      nowMs += ms
    },
  }
}

test('nobody looks before hits are known to go out with pauses', () => {
  const { trips } = spinning()
  expect(trips(1, 100)).toBe(0)
  expect(trips(300, 100, 10)).toBe(11)
})

test('a look ends with the reply, or after its time', () => {
  const { trips } = spinning()
  trips(300, 100, 5)
  expect(trips(1, 100, 5)).toBe(6)
  expect(trips(1, 100, 0)).toBe(1)
  expect(trips(1, 100)).toBe(25)
})

test('nobody looks where that would take more than half of the time', () => {
  const { trips } = spinning()
  expect(trips(1_000, 49, 5)).toBe(0)
  expect(trips(1_000, 51, 5)).toBe(6)
  expect(trips(1_000, 49, 5)).toBe(0)
})

test('nobody looks where hits go out in batches', () => {
  const { trips } = spinning()
  expect(trips(1_000, 100, 5, 3)).toBe(0)
  expect(trips(1_000, 100, 5, 1)).toBe(6)
})

test('replies that do not come in time stop the looking for a second, then it is tried again', () => {
  const { trips, sleep } = spinning()
  trips(300, 100, 5)
  expect(trips(100, 100)).toBe(0)
  expect(trips(1, 100, 5)).toBe(0)
  sleep(1_000)
  expect(trips(1, 100, 5)).toBe(6)
})

test('hits that are sent during a look are looked for as long as the first', () => {
  const { trips, sent, step } = spinning()
  trips(300, 100, 5)
  sent()
  for (let i = 0; i < 20; i++) step()
  sent()
  let more = 0
  while (step()) more++
  expect(more).toBe(25)
})

test('0 is never', () => {
  expect(spinning(0).trips(300, 100, 5)).toBe(0)
})
