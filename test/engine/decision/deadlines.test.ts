/** Calls whose counts do not arrive before their deadline: answered once, in time, by the policies of what is missing. */
import fc from 'fast-check'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { RuleNode, StoreErrorPolicy } from '../../../engine/config/rules.ts'
import type { EngineOptions } from '../../../engine/decision/engine.ts'
import { StoreError } from '../../../engine/runtime/errors.ts'
import type { Batch } from '../../../engine/stores/batch.ts'
import type { CounterStore } from '../../../engine/stores/counter-store.ts'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../../../engine/stores/memory/table-layout.ts'
import type { RateLimitResponse } from '../../../proto/ratelimit.ts'
import { seed, size } from '../../helpers/size.ts'
import { engine, NOON } from '../harness.ts'
import { degradedBy, ruleWith } from './failing-engine.ts'

const EPOCH_MS = NOON * 1_000
const DAY_MS = 86_400_000
const IMMEDIATE_MS = 1 // of a fake setImmediate, after the timer

let startMs = 0 // of the test, by performance.now()

beforeEach(() => {
  vi.useFakeTimers({
    now: EPOCH_MS,
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'Date', 'performance'],
  })
  startMs = performance.now()
  onTestFinished(() => void vi.useRealTimers())
})

/** Keeps batches until the test replies to them. */
class ManualStore implements CounterStore {
  readonly isSynchronous = false
  hasCapacity = true
  lateMs: number[] = [] // when calls were late, since the start of the test
  readonly sent: { batch: Batch; done: (batch: Batch) => void }[] = []

  add(batch: Batch, _nowSec: number, done: (batch: Batch) => void): void {
    this.sent.push({ batch, done })
  }

  onLate(): void {
    this.lateMs.push(Date.now() - EPOCH_MS - IMMEDIATE_MS)
  }

  /** Every slot of the oldest batch has this count before its hits. */
  reply(before = 0): void {
    const { batch, done } = this.sent.shift()!
    for (let slot = 0; slot < batch.slotsCount; slot++) batch.setPreviousCount(slot, before)
    done(batch)
  }

  async connect(): Promise<void> {}
  async close(): Promise<void> {}
}

interface Answer {
  atMs: number // since the start of the test
  response: RateLimitResponse | null // null = it failed
  error: string
}

function lateEngine(nodes: RuleNode[], options: Partial<EngineOptions> = {}) {
  const store = new ManualStore()
  const localStore = new MemoryStore(createMemoryTable(1 << 20))
  const { engine: tested, stats } = engine(nodes, { store, localStore, hasDegradedHeader: true, ...options })
  /** Asks with a timeout in ms; the list receives every answer. */
  const ask = (keys: string[], timeoutMs = Number.POSITIVE_INFINITY): Answer[] => {
    const answers: Answer[] = []
    const descriptors = keys.map((key) => ({ entries: [{ key, value: '1' }], limit: null, hitsAddend: null }))
    const add = (response: RateLimitResponse | null, error = '') =>
      answers.push({ atMs: performance.now() - startMs - IMMEDIATE_MS, response, error })
    tested.decide(
      { domain: 'd', descriptors, hitsAddend: 0 },
      {
        isCancelled: false,
        deadlineMs: performance.now() + timeoutMs,
        onDecision: (response) => add(response),
        onError: (error) => {
          expect(error).toBeInstanceOf(StoreError)
          add(null, error.message)
        },
      },
    )
    return answers
  }
  return { store, stats, ask }
}

const pass = (ms: number) => vi.advanceTimersByTime(ms)

const POLICIES: [StoreErrorPolicy, string][] = [
  ['allow', 'allow'],
  ['deny', 'deny'],
  ['local', 'local'],
]

describe('at the deadline', () => {
  test.each(POLICIES)('the policy answers: %s', (policy, header) => {
    const { store, ask, stats } = lateEngine([ruleWith('a', policy)])
    const answers = ask(['a'], 20)
    pass(9)
    expect(answers).toEqual([])
    pass(2)
    expect(answers).toHaveLength(1)
    expect(answers[0].atMs).toBe(10)
    expect(degradedBy(answers[0].response!)).toBe(header)
    store.reply()
    pass(1_000)
    expect(answers, 'the late reply is dropped').toHaveLength(1)
    expect(stats()).toMatchObject({
      'sluice.store.unknown_hits': 1,
      [`ratelimit.service.rate_limit.d.a.degraded_${policy}`]: 1,
    })
  })

  test('error: the call fails', () => {
    const { ask, stats } = lateEngine([ruleWith('a', 'error')])
    const answers = ask(['a'], 20)
    pass(21)
    expect(answers).toMatchObject([
      { atMs: 10, response: null, error: 'no count before the deadline; the hits may have been counted' },
    ])
    expect(stats()).toMatchObject({ 'ratelimit.service.call.should_rate_limit.redis_error': 1 })
  })

  test('counts that have arrived are used, although those of another node have not', () => {
    const { store, ask } = lateEngine([ruleWith('a', 'deny'), ruleWith('b', 'local'), ruleWith('c', 'deny')])
    const answers = ask(['a', 'b', 'c'], 20)
    pass(1)
    const { batch } = store.sent[0]
    batch.setPreviousCount(0, 3)
    batch.setPreviousCount(2, 10)
    pass(20)
    expect(answers[0].response!.statuses.map(({ code, limitRemaining }) => [code, limitRemaining])).toEqual([
      [1, 6],
      [1, 9],
      [2, 0],
    ])
    expect(degradedBy(answers[0].response!)).toBe('local')
  })
})

test('the store learns that calls were late, once for those that were due together, and only then', () => {
  const { store, ask } = lateEngine([ruleWith('a', 'deny')])
  ask(['a'], 20)
  ask(['a'], 20)
  pass(1)
  ask(['a'], 40)
  ask(['a'])
  pass(1)
  expect(store.lateMs).toEqual([])
  pass(1_000)
  expect(store.lateMs).toEqual([10, 21])
})

test('a reply in time is the answer, and leaves no timer', () => {
  const { store, ask, stats } = lateEngine([ruleWith('a', 'deny')])
  const answers = ask(['a'], 20)
  pass(5)
  store.reply()
  pass(100)
  expect(answers).toHaveLength(1)
  expect(degradedBy(answers[0].response!)).toBeUndefined()
  expect(stats()['sluice.store.unknown_hits']).toBeUndefined()
  expect(vi.getTimerCount()).toBe(0)
})

test('no deadline, no timer: the call waits for the store', () => {
  const { store, ask } = lateEngine([ruleWith('a', 'deny')])
  const answers = ask(['a'])
  pass(1)
  expect(vi.getTimerCount()).toBe(0)
  pass(3_600_000)
  expect(answers).toEqual([])
  store.reply()
  expect(answers).toHaveLength(1)
})

// biome-ignore format: a table
test.each([
  // DECISION_TIMEOUT, the caller's timeout → answered after
  [   0,    20,    10], // the margin is half
  [   0,     4,     2],
  [   0, 1_000,   950], // 50 ms at most
  [  50, 1_000,    50],
  [  50,    20,    10],
  [  50, Number.POSITIVE_INFINITY, 50],
])('DECISION_TIMEOUT=%ims, the caller waits %d ms: after %i ms', (decisionTimeoutMs, timeoutMs, answeredMs) => {
  const { ask } = lateEngine([ruleWith('a', 'allow')], { decisionTimeoutMs })
  const answers = ask(['a'], timeoutMs)
  pass(2_000)
  expect(answers.map(({ atMs }) => atMs)).toEqual([answeredMs])
})

test('each call of a batch has its own deadline; later calls move the timer forward', () => {
  const { store, ask } = lateEngine([ruleWith('a', 'allow')])
  const slow = ask(['a'], 1_000)
  const fast = ask(['a'], 20)
  const patient = ask(['a'])
  pass(500)
  expect([slow.length, fast.map(({ atMs }) => atMs), patient.length]).toEqual([0, [10], 0])
  store.reply(4)
  expect(slow[0].response!.statuses[0].limitRemaining).toBe(5)
  expect(patient[0].response!.statuses[0].limitRemaining, 'the hit of the late call is counted').toBe(3)
  expect(fast).toHaveLength(1)
})

test('a call that the store had no capacity for is answered and never sent', () => {
  const { store, ask } = lateEngine([ruleWith('a', 'allow'), ruleWith('b', 'allow')])
  store.hasCapacity = false
  const first = ask(['a'])
  pass(1)
  const late = ask(['b'], 20)
  pass(100)
  expect(late.map(({ atMs }) => atMs)).toEqual([11])
  store.hasCapacity = true
  const last = ask(['a'])
  pass(1)
  expect(store.sent[0].batch.membersCount).toBe(2)
  store.reply()
  expect([first.length, late.length, last.length]).toEqual([1, 1, 1])
})

test('a batch that waited for capacity keeps the deadlines of its calls, without those that are answered', () => {
  const { store, ask } = lateEngine([ruleWith('a', 'allow'), ruleWith('b', 'deny')])
  store.hasCapacity = false
  const late = ask(['a'], 20)
  const waiting = ask(['b'], 200)
  pass(100)
  expect([late.length, waiting.length]).toEqual([1, 0])
  store.hasCapacity = true
  ask(['a'])
  pass(1)
  expect(store.sent[0].batch.membersCount).toBe(2)
  pass(1_000)
  expect(waiting.map(({ atMs, response }) => [atMs, degradedBy(response!)])).toEqual([[150, 'deny']])
})

type Event =
  | { kind: 'ask'; keys: string[]; timeoutMs: number }
  | { kind: 'reply' }
  | { kind: 'pass'; ms: number }
  | { kind: 'capacity'; has: boolean }
  | { kind: 'clock'; stepMs: number } // the system clock is set

test('any schedule: every call is answered exactly once, by its deadline', () => {
  const keys = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 3 })
  const event: fc.Arbitrary<Event> = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('ask' as const),
        keys,
        timeoutMs: fc.constantFrom(1, 4, 20, 21, 300, Number.POSITIVE_INFINITY),
      }),
    },
    { weight: 3, arbitrary: fc.constant<Event>({ kind: 'reply' }) },
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 40 }).map((ms): Event => ({ kind: 'pass', ms })) },
    { weight: 1, arbitrary: fc.boolean().map((has): Event => ({ kind: 'capacity', has })) },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(-DAY_MS, -50, 50, DAY_MS)
        .map((stepMs): Event => ({ kind: 'clock', stepMs })),
    },
  )
  const nodes = [
    ruleWith('a', 'error'),
    ruleWith('b', 'allow'),
    ruleWith('c', 'deny'),
    ruleWith('d', 'local'),
  ]
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), fc.constantFrom(0, 10), (events, decisionTimeoutMs) => {
      const { store, ask } = lateEngine(nodes, { decisionTimeoutMs })
      const asked: { answers: Answer[]; untilMs: number }[] = []
      const isLimited = (timeoutMs: number) => timeoutMs !== Number.POSITIVE_INFINITY || decisionTimeoutMs > 0
      for (const each of events) {
        if (each.kind === 'pass') pass(each.ms)
        else if (each.kind === 'clock') vi.setSystemTime(Date.now() + each.stepMs)
        else if (each.kind === 'capacity') store.hasCapacity = each.has
        else if (each.kind === 'reply') {
          if (store.sent.length > 0) store.reply()
        } else {
          const nowMs = performance.now() - startMs
          const untilMs = nowMs + Math.min(each.timeoutMs, decisionTimeoutMs || Number.POSITIVE_INFINITY)
          asked.push({
            answers: ask(each.keys, each.timeoutMs),
            untilMs: isLimited(each.timeoutMs) ? untilMs : Number.POSITIVE_INFINITY,
          })
        }
      }
      pass(1_000)
      for (const { answers, untilMs } of asked) {
        if (untilMs === Number.POSITIVE_INFINITY) continue
        expect(answers).toHaveLength(1)
        expect(answers[0].atMs).toBeLessThanOrEqual(untilMs + 1) // a timer is at least 1 ms
      }
      store.hasCapacity = true
      ask(['b'])
      pass(1)
      while (store.sent.length > 0) {
        store.reply()
        pass(1)
      }
      for (const { answers } of asked) expect(answers).toHaveLength(1)
      pass(1_000)
      expect(vi.getTimerCount()).toBe(0)
      startMs = performance.now()
    }),
    { seed: seed(), numRuns: size({ small: 300, full: 20_000 }) },
  )
})
