/** Deadlines: one timer for all batches in flight, and which of them it looks through. */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { Deadlines } from '../../../engine/decision/deadlines.ts'
import { RequestBatch } from '../../../engine/decision/request-batch.ts'

const START_MS = 5_000 // of performance.now()
const IMMEDIATE_MS = 1 // of a fake setImmediate, after the timer

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
  vi.advanceTimersByTime(START_MS)
  onTestFinished(() => void vi.useRealTimers())
})

const pass = (ms: number) => vi.advanceTimersByTime(ms)

const answered: [RequestBatch, number][] = []
let lateRounds = 0 // calls of onLate
const NEVER = Number.POSITIVE_INFINITY

function open(timeoutMs = 0) {
  answered.length = 0
  lateRounds = 0
  const onDue = (requests: RequestBatch, request: number) => {
    answered.push([requests, request])
    requests.callbacks[request] = null
  }
  const deadlines = new Deadlines(timeoutMs, onDue, () => lateRounds++)
  const batch = () => new RequestBatch(false, () => {})
  /** Adds a request to a batch. `timeoutMs`: the caller's; undefined = no deadline is known. */
  const add = (requests: RequestBatch, callerTimeoutMs: number | undefined) => {
    const deadlineMs = callerTimeoutMs === undefined ? undefined : performance.now() + callerTimeoutMs
    const callback = { isCancelled: false, onDecision() {}, onError() {}, deadlineMs }
    requests.close(callback, null, false)
    deadlines.add(requests, requests.requestsCount - 1, callback)
    return requests
  }
  return { deadlines, batch, add }
}

test.each([undefined, NEVER])('a call without deadline (%s) reads no clock', (callerTimeoutMs) => {
  const { batch, deadlines } = open()
  const clock = vi.spyOn(performance, 'now')
  const requests = batch()
  const callback = { isCancelled: false, onDecision() {}, onError() {}, deadlineMs: callerTimeoutMs }
  requests.close(callback, null, false)
  deadlines.add(requests, 0, callback)
  expect(requests.deadlinesMs).toEqual([NEVER])
  expect(clock).not.toHaveBeenCalled()
  expect(vi.getTimerCount()).toBe(0)
})

test('DECISION_TIMEOUT alone, when the caller names none', () => {
  const { batch, add } = open(50)
  const requests = add(batch(), undefined)
  expect([requests.deadlinesMs, requests.nextDeadlineMs]).toEqual([[START_MS + 50], START_MS + 50])
  pass(52)
  expect(answered).toEqual([[requests, 0]])
})

test('a removed batch is not asked again, one that replaces another is', () => {
  const { batch, add, deadlines } = open()
  const [counted, waited, resent] = [add(batch(), 20), add(batch(), 40), batch()]
  add(batch(), undefined)
  deadlines.remove(counted)
  resent.copy(waited, 0)
  deadlines.replace(waited, resent)
  pass(100)
  expect(answered).toEqual([[resent, 0]])
  deadlines.replace(resent, batch())
  add(batch(), 40)
  pass(100)
  expect(answered).toHaveLength(2)
})

test('a batch without deadlines left is not looked through', () => {
  const { batch, add, deadlines } = open()
  const [former, resent, done] = [add(batch(), 20), batch(), add(batch(), 30)]
  deadlines.replace(former, resent)
  pass(30)
  expect(answered).toEqual([[done, 0]])
  for (const requests of [resent, done]) {
    requests.close({ isCancelled: false, onDecision() {}, onError() {} }, null, false)
    const request = requests.requestsCount - 1
    requests.deadlinesMs[request] = requests.nextDeadlineMs = START_MS // noticed only when the batch is examined
  }
  const next = add(batch(), 40)
  pass(100)
  expect(answered).toEqual([
    [done, 0],
    [next, 0],
  ])
})

test('one timer, of the earliest deadline; the others follow', () => {
  const { batch, add } = open()
  const requests = batch()
  for (const ms of [400, 20, 20, 80]) {
    add(requests, ms)
    expect(vi.getTimerCount()).toBe(1)
  }
  pass(10)
  pass(IMMEDIATE_MS)
  expect(answered.map(([, request]) => request)).toEqual([1, 2])
  expect(lateRounds).toBe(1)
  expect(vi.getTimerCount()).toBe(1)
  pass(1_000)
  expect(answered.map(([, request]) => request)).toEqual([1, 2, 3, 0])
  expect(lateRounds).toBe(3)
  expect(vi.getTimerCount()).toBe(0)
})

test('a deadline that has passed is due after 1 ms; one beyond the longest timer of Node is waited for', () => {
  const { batch, add } = open()
  const past = add(batch(), -100)
  vi.advanceTimersToNextTimer()
  expect(performance.now() - START_MS).toBe(1)
  pass(IMMEDIATE_MS)
  expect(answered).toEqual([[past, 0]])
  const beforeMs = performance.now()
  add(batch(), 2 ** 32)
  vi.advanceTimersToNextTimer()
  expect(performance.now() - beforeMs).toBe(2 ** 31 - 1)
  pass(IMMEDIATE_MS)
  expect([answered.length, vi.getTimerCount()], 'not due: the next timer').toEqual([1, 1])
})

test('a request is due at its deadline, not before', () => {
  const { batch, add } = open(4)
  const requests = add(add(batch(), 6), undefined) // due after 3 and 4 ms
  pass(1)
  add(requests, undefined) // after 5
  pass(2 + IMMEDIATE_MS)
  expect(answered).toEqual([
    [requests, 0],
    [requests, 1],
  ])
  pass(10)
  expect(answered).toHaveLength(3)
})
