/** When a reply is looked for, when a nap is taken, and when not, on a clock of the test's. */
import { expect, test } from 'vitest'
import { ReplyPoller } from '../../../../engine/stores/redis/reply-poller.ts'

const TURN_MS = 2 ** -10 // sums of it are exact
const LONGEST_MS = 25 * TURN_MS

/** Looks, without naps, whose event loop the test turns. */
function spinning(longestMs = LONGEST_MS) {
  let nowMs = 0
  let next: (() => void) | null = null
  const pace = new ReplyPoller(
    { spinMs: longestMs, napMs: 0 },
    {
      nowMs: () => nowMs,
      soon: (turn) => {
        next = turn
      },
      sleep: () => expect.fail('a nap'),
    },
  )
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
      pace.sent(requests)
      for (turns = 0; next !== null; turns++) {
        if (turns === replyAfter) pace.answered()
        step()
      }
      pace.answered()
      nowMs = Math.max(nowMs, startMs + gap * TURN_MS)
    }
    return turns
  }
  return {
    trips,
    step,
    sent: () => pace.sent(1),
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

const NAP_MS = 0.02
const NAP_TAKES_MS = 0.08 // what Linux makes of it

/** Naps, without looks, of callers that ask as `nextMs` says: when, after their last call was sent at `sentMs`. */
function napping({ napMs = NAP_MS, requests = 1 } = {}) {
  let nowMs = 0
  let napsCount = 0
  let next: (() => void) | null = null
  const pace = new ReplyPoller(
    { spinMs: 0, napMs },
    {
      nowMs: () => nowMs,
      soon: (turn) => {
        next = turn
      },
      sleep: (ms) => {
        expect(ms).toBe(napMs)
        napsCount++
        nowMs += NAP_TAKES_MS
      },
    },
  )
  const turn = () => {
    const due = next
    next = null
    due?.()
  }
  /** For so long; naps taken. */
  return {
    /** Calls come every `gapMs`, answered or not; those of one nap go out in one trip. */
    open(forMs: number, gapMs: number): number {
      const untilMs = nowMs + forMs
      napsCount = 0
      let dueMs = nowMs + gapMs
      while (dueMs < untilMs) {
        nowMs = Math.max(nowMs, dueMs)
        const waiting = 1 + Math.floor((nowMs - dueMs) / gapMs)
        dueMs += waiting * gapMs
        pace.sent(waiting * requests)
        turn()
        pace.answered()
      }
      return napsCount
    },
    /** One caller: each call comes `thinkMs` after the answer to the last, which takes 0.03 ms. */
    closed(forMs: number, thinkMs: number): number {
      const untilMs = nowMs + forMs
      napsCount = 0
      while (nowMs < untilMs) {
        const sentMs = nowMs
        pace.sent(requests)
        turn()
        pace.answered()
        nowMs = Math.max(nowMs, sentMs + 0.03) + thinkMs
      }
      return napsCount
    },
  }
}

test('calls that come closely whatever happens are napped over', () => {
  const { open } = napping()
  open(100, 0.07) // mostly the trial
  const napsCount = open(2_500, 0.07)
  expect(napsCount).toBeGreaterThan(15_000)
  expect(napsCount).toBeLessThan(2_450 / NAP_TAKES_MS) // not while it is tried without
})

test('a nap is not taken when the reply is there already', () => {
  let naps = 0
  const turns: (() => void)[] = []
  let nowMs = 0
  const sleep = () => naps++
  const pace = new ReplyPoller(
    { spinMs: 0, napMs: NAP_MS },
    { nowMs: () => nowMs, soon: (turn) => turns.push(turn), sleep },
  )
  for (; nowMs < 200; nowMs += 0.05) {
    pace.sent(1)
    pace.answered()
    for (const turn of turns.splice(0)) turn()
  }
  expect(naps).toBe(0)
})

test('callers that wait for their answers are not made to wait longer', () => {
  const { closed } = napping()
  const napsCount = closed(5_000, 0.03) // asks every 0.06 ms; with naps every 0.11
  expect(napsCount).toBeGreaterThan(100) // it was tried
  expect(napsCount).toBeLessThan(600) // once
  expect(closed(4_900, 0.03)).toBeLessThan(600) // and again after 5 s
})

test('when callers begin to wait for their answers, naps end within a second', () => {
  const { open, closed } = napping()
  expect(open(500, 0.07)).toBeGreaterThan(1_000)
  closed(1_200, 0.03)
  expect(closed(3_500, 0.03)).toBe(0)
})

test('nobody naps where calls come rarely, or in batches', () => {
  expect(napping().open(3_000, 0.2)).toBeLessThan(600) // one trial, before the pace is known
  const { open } = napping({ requests: 4 })
  open(1_000, 0.2)
  expect(open(3_000, 0.2)).toBe(0)
})

test('a nap of 0 is never', () => {
  expect(napping({ napMs: 0 }).open(1_000, 0.07)).toBe(0)
})
