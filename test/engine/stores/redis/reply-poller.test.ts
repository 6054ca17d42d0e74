/** When a thread polls for replies and when it blocks to coalesce them, with an injected clock. */
import { expect, test } from 'vitest'
import { ReplyPoller } from '../../../../engine/stores/redis/reply-poller.ts'

const TURN_MS = 2 ** -10 // sums of it are exact
const LONGEST_MS = 25 * TURN_MS

/** Busy polling alone; the test runs the event loop. */
function createBusyPoll(longestMs = LONGEST_MS) {
  let nowMs = 0
  let next: (() => void) | null = null
  const poller = new ReplyPoller(
    { busyPollMs: longestMs, coalesceDelayMs: 0 },
    {
      nowMs: () => nowMs,
      defer: (turn) => {
        next = turn
      },
      block: () => expect.fail('blocked'),
    },
  )
  /** One turn; false: polling has ended. */
  const step = () => {
    const turn = next
    if (turn === null) return false
    next = null
    nowMs += TURN_MS
    turn()
    return true
  }
  /** Sends batches of `requests`, one every `gap` turns. Returns how many turns the last one was polled. */
  const sendBatches = (times: number, gap: number, replyAfter = Number.POSITIVE_INFINITY, requests = 1) => {
    let turns = 0
    for (let i = 0; i < times; i++) {
      const startMs = nowMs
      poller.onSent(requests)
      for (turns = 0; next !== null; turns++) {
        if (turns === replyAfter) poller.onAllReplied()
        step()
      }
      poller.onAllReplied()
      nowMs = Math.max(nowMs, startMs + gap * TURN_MS)
    }
    return turns
  }
  return {
    sendBatches,
    step,
    sent: () => poller.onSent(1),
    sleep: (ms: number) => {
      nowMs += ms
    },
  }
}

test('no polling before batches are known to be sparse', () => {
  const { sendBatches } = createBusyPoll()
  expect(sendBatches(1, 100)).toBe(0)
  expect(sendBatches(300, 100, 10)).toBe(11)
})

test('a poll ends with the reply, or after its time', () => {
  const { sendBatches } = createBusyPoll()
  sendBatches(300, 100, 5)
  expect(sendBatches(1, 100, 5)).toBe(6)
  expect(sendBatches(1, 100, 0)).toBe(1)
  expect(sendBatches(1, 100)).toBe(25)
})

test('no polling where it would take more than half of the time', () => {
  const { sendBatches } = createBusyPoll()
  expect(sendBatches(1_000, 49, 5)).toBe(0)
  expect(sendBatches(1_000, 51, 5)).toBe(6)
  expect(sendBatches(1_000, 49, 5)).toBe(0)
})

test('no polling where requests are batched', () => {
  const { sendBatches } = createBusyPoll()
  expect(sendBatches(1_000, 100, 5, 3)).toBe(0)
  expect(sendBatches(1_000, 100, 5, 1)).toBe(6)
})

test('late replies pause polling for a second', () => {
  const { sendBatches, sleep } = createBusyPoll()
  sendBatches(300, 100, 5)
  expect(sendBatches(100, 100)).toBe(0)
  expect(sendBatches(1, 100, 5)).toBe(0)
  sleep(1_000)
  expect(sendBatches(1, 100, 5)).toBe(6)
})

test('hits sent during a poll extend it', () => {
  const { sendBatches, sent, step } = createBusyPoll()
  sendBatches(300, 100, 5)
  sent()
  for (let i = 0; i < 20; i++) step()
  sent()
  let more = 0
  while (step()) more++
  expect(more).toBe(25)
})

test('REDIS_BUSY_POLL=0 never polls', () => {
  expect(createBusyPoll(0).sendBatches(300, 100, 5)).toBe(0)
})

const DELAY_MS = 0.02
const BLOCKED_MS = 0.08 // what Linux makes of it

/** Blocking alone, with the delay of `coalesceDelayMs`. */
function createBlockingWait({ coalesceDelayMs = DELAY_MS, requests = 1 } = {}) {
  let nowMs = 0
  let blocksCount = 0
  let next: (() => void) | null = null
  const poller = new ReplyPoller(
    { busyPollMs: 0, coalesceDelayMs },
    {
      nowMs: () => nowMs,
      defer: (turn) => {
        next = turn
      },
      block: (ms) => {
        expect(ms).toBe(coalesceDelayMs)
        blocksCount++
        nowMs += BLOCKED_MS
      },
    },
  )
  const turn = () => {
    const due = next
    next = null
    due?.()
  }
  /** Both run for `forMs` and return how often the thread was blocked. */
  return {
    /** Open loop: a call every `gapMs`; those of one delay are sent together. */
    open(forMs: number, gapMs: number): number {
      const untilMs = nowMs + forMs
      blocksCount = 0
      let dueMs = nowMs + gapMs
      while (dueMs < untilMs) {
        nowMs = Math.max(nowMs, dueMs)
        const waiting = 1 + Math.floor((nowMs - dueMs) / gapMs)
        dueMs += waiting * gapMs
        poller.onSent(waiting * requests)
        turn()
        poller.onAllReplied()
      }
      return blocksCount
    },
    /** Closed loop: each call comes `thinkMs` after the response to the last, which takes 0.03 ms. */
    closed(forMs: number, thinkMs: number): number {
      const untilMs = nowMs + forMs
      blocksCount = 0
      while (nowMs < untilMs) {
        const sentMs = nowMs
        poller.onSent(requests)
        turn()
        poller.onAllReplied()
        nowMs = Math.max(nowMs, sentMs + 0.03) + thinkMs
      }
      return blocksCount
    },
  }
}

test('blocks where calls come closely in an open loop', () => {
  const { open } = createBlockingWait()
  open(100, 0.07) // mostly the trial
  const blocksCount = open(2_500, 0.07)
  expect(blocksCount).toBeGreaterThan(15_000)
  expect(blocksCount).toBeLessThan(2_450 / BLOCKED_MS) // not while it is tried without
})

test('does not block when the reply has arrived', () => {
  let blocks = 0
  const turns: (() => void)[] = []
  let nowMs = 0
  const block = () => blocks++
  const poller = new ReplyPoller(
    { busyPollMs: 0, coalesceDelayMs: DELAY_MS },
    { nowMs: () => nowMs, defer: (turn) => turns.push(turn), block },
  )
  for (; nowMs < 200; nowMs += 0.05) {
    poller.onSent(1)
    poller.onAllReplied()
    for (const turn of turns.splice(0)) turn()
  }
  expect(blocks).toBe(0)
})

test('closed-loop callers are not slowed down', () => {
  const { closed } = createBlockingWait()
  const blocksCount = closed(5_000, 0.03) // a call every 0.06 ms; with delays every 0.11
  expect(blocksCount).toBeGreaterThan(100) // it was tried
  expect(blocksCount).toBeLessThan(600) // once
  expect(closed(4_900, 0.03)).toBeLessThan(600) // and again after 5 s
})

test('blocking ends within a second when callers turn to a closed loop', () => {
  const { open, closed } = createBlockingWait()
  expect(open(500, 0.07)).toBeGreaterThan(1_000)
  closed(1_200, 0.03)
  expect(closed(3_500, 0.03)).toBe(0)
})

test('does not block where calls are rare or batched', () => {
  expect(createBlockingWait().open(3_000, 0.2)).toBeLessThan(600) // one trial, before the rate is known
  const { open } = createBlockingWait({ requests: 4 })
  open(1_000, 0.2)
  expect(open(3_000, 0.2)).toBe(0)
})

test('REDIS_REPLY_COALESCE_DELAY=0 never blocks', () => {
  expect(createBlockingWait({ coalesceDelayMs: 0 }).open(1_000, 0.07)).toBe(0)
})
