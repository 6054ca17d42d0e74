/** When a reply is looked for, and when not, on a clock of the test's. */
import { expect, test } from 'vitest'
import { Spin } from '../../../engine/counters/redis-spin.ts'

const TURN_MS = 2 ** -10 // sums of it are exact
const LONGEST_MS = 25 * TURN_MS

/** A spin, and how many turns of the event loop it takes until it sleeps. */
function spinning(longestMs = LONGEST_MS) {
  let nowMs = 0
  let next: (() => void) | null = null
  const spin = new Spin(longestMs, {
    nowMs: () => nowMs,
    soon: (turn) => {
      next = turn
    },
  })
  const turns = (replyAfter = Number.POSITIVE_INFINITY) => {
    let count = 0
    for (; next !== null; count++) {
      const turn = next
      next = null
      nowMs += TURN_MS
      if (count === replyAfter) spin.answered()
      turn()
    }
    spin.answered()
    return count
  }
  /** Calls one at a time. */
  const alone = (times: number, replyAfter?: number) => {
    let count = 0
    for (let i = 0; i < times; i++) {
      spin.sent(true)
      count = turns(replyAfter)
    }
    return count
  }
  /** Calls that find others on their way. */
  const overlapping = (times: number) => {
    for (let i = 0; i < times; i++) spin.sent(false)
    return turns()
  }
  const step = () => {
    if (next === null) return false
    const turn = next
    next = null
    nowMs += TURN_MS
    turn()
    return next !== null
  }
  return {
    alone,
    overlapping,
    step,
    sent: (isAlone: boolean) => spin.sent(isAlone),
    sleep: (ms: number) => {
      nowMs += ms
    },
  }
}

test('nobody looks before calls are known to come one at a time', () => {
  const { alone } = spinning()
  expect(alone(1)).toBe(0)
  expect(alone(300, 10)).toBe(11)
})

test('a look ends with the reply, or after its time', () => {
  const { alone } = spinning()
  alone(300, 5)
  expect(alone(1, 5)).toBe(6)
  expect(alone(1, 0)).toBe(1)
  expect(alone(1)).toBe(LONGEST_MS / TURN_MS)
})

test('nobody looks while most calls overlap, nor soon after', () => {
  const { alone, overlapping } = spinning()
  alone(300, 5)
  expect(overlapping(100)).toBe(LONGEST_MS / TURN_MS) // the look that the first ones began
  expect(overlapping(1)).toBe(0)
  expect(alone(1, 5)).toBe(0)
  expect(alone(300, 5)).toBe(6)
})

test('replies that do not come in time stop the looking for a second, then it is tried again', () => {
  const { alone, sleep } = spinning()
  alone(300, 5)
  expect(alone(100)).toBe(0)
  expect(alone(1, 5)).toBe(0)
  sleep(1_000)
  expect(alone(1, 5)).toBe(6)
})

test('hits that are sent during a look are looked for as long as if they had come alone', () => {
  const { alone, sent, step } = spinning()
  alone(300, 5)
  sent(true)
  for (let i = 0; i < 20; i++) step()
  sent(false)
  let more = 0
  while (step()) more++
  expect(more).toBe(LONGEST_MS / TURN_MS - 1)
})

test('0 is never', () => {
  const { alone } = spinning(0)
  expect(alone(300, 5)).toBe(0)
})
