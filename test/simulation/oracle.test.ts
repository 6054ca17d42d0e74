/** The oracle accepts what is right and refuses what is wrong: each wrong history breaks the invariant named beside it. */
import { describe, expect, test } from 'vitest'
import { StoreError } from '../../engine/runtime/errors.ts'
import { Code, type RateLimitResponse, Unit } from '../../proto/ratelimit.ts'
import { Executions } from './executions.ts'
import { type AskedCall, Oracle, Violation } from './oracle.ts'
import { drawPlan, type Plan, type PlannedFault, type PlannedRule } from './plan.ts'

const KEY = 'd_k0_a_0'
const LIMIT = 5

/** A history of single calls on one key with a limit of 5 per minute. */
class History {
  readonly plan: Plan
  readonly executions = new Executions()
  private readonly oracle: Oracle
  private readonly calls: AskedCall[] = []
  private nowMs = 0
  private count = 0

  constructor(rule: Partial<PlannedRule> = {}, changes: Partial<Plan> = {}) {
    const drawn = drawPlan(1)
    const settings = { ...drawn.settings, operationTimeoutMs: 100, jitterMaxSec: 0, hasLocalCache: false }
    const rules = [{ limit: LIMIT, policy: null, share: null, ...rule }]
    const stop = { stopIncrementWhenOverLimit: false, defaultPolicy: 'error' as const }
    this.plan = {
      ...{ ...drawn, store: 'redis', units: [Unit.Minute], versions: [rules, rules], faults: [] },
      ...{ settings: { ...settings, ...stop }, ...changes },
    }
    this.oracle = new Oracle(this.plan, this.executions, [])
  }

  ask(changes: Partial<AskedCall> = {}): this {
    const call = {
      ...{
        atMs: 0,
        worker: 0,
        hits: 1,
        timeoutMs: 50,
        isBytes: true,
        cancelAfterMs: Number.POSITIVE_INFINITY,
      },
      descriptors: [{ rule: 0, value: 'a', hits: null }],
    }
    const asked: AskedCall = {
      ...{ call, number: this.calls.length, version: 0, askedMs: ++this.nowMs, dueMs: this.nowMs + 50 },
      ...{ keys: [KEY], lengthsSec: [60], windowEndsMs: [60_000], isDisturbed: () => true, isRefused: false },
      ...{ answersCount: 0, isCancelled: false, ...changes },
    }
    this.calls.push(asked)
    this.oracle.onAsked(asked)
    return this
  }

  /** The server counts a hit. */
  execute(before = this.count): this {
    this.executions.add(KEY, { hits: 1, before, atMs: ++this.nowMs })
    this.count = before + 1
    return this
  }

  /** The latest call, or another, is answered with so many remaining; -1 = over the limit. */
  answer(
    remaining: number,
    {
      number = this.calls.length - 1,
      ms = 1,
      limit = LIMIT,
      name = 'v0',
      degradedBy = null as null | 'allow' | 'deny' | 'local',
      reset = 10,
    } = {},
  ): this {
    this.nowMs += ms
    const code = remaining < 0 ? Code.OverLimit : Code.Ok
    const currentLimit = { name, requestsPerUnit: limit, unit: Unit.Minute }
    const statuses = [{ code, currentLimit, limitRemaining: Math.max(0, remaining), resetSec: reset }]
    const response: RateLimitResponse = {
      overallCode: code,
      statuses,
      responseHeadersToAdd: [],
      dynamicMetadata: null,
    }
    this.oracle.onAnswered(this.calls[number], { atMs: this.nowMs, response, error: null, degradedBy })
    return this
  }

  fail(error: Error): this {
    this.oracle.onAnswered(this.calls.at(-1)!, {
      atMs: ++this.nowMs,
      response: null,
      error,
      degradedBy: null,
    })
    return this
  }

  finish({ unknownHits = 0, lostHits = 0, hasLoss = false, resets = 0 } = {}): this {
    this.oracle.finish({ unknownHits, lostHits }, hasLoss, resets)
    return this
  }
}

const counted = (history: History, remaining: number) => history.ask().execute().answer(remaining)
const local = { policy: 'local' as const }
const step: PlannedFault = {
  kind: 'step clock',
  server: 0,
  atMs: 0,
  endMs: 0,
  amount: 0,
  error: '',
  commands: [],
}

describe('right histories', () => {
  test.each<[string, () => unknown]>([
    ['counts in order', () => counted(counted(new History(), 4), 3).finish()],
    [
      'over the limit',
      () => {
        const history = new History({ limit: 1 }).ask().execute().answer(0, { limit: 1 })
        return history.ask().execute().answer(-1, { limit: 1 }).finish()
      },
    ],
    [
      'an unknown hit that was counted, flagged',
      () => new History().ask().execute().fail(new StoreError('late', true)).finish({ unknownHits: 1 }),
    ],
    [
      'an unknown hit that was not counted',
      () => new History().ask().fail(new StoreError('late', true)).finish({ unknownHits: 1 }),
    ],
    [
      'a hit that memcached did not take, flagged',
      () =>
        counted(new History({}, { store: 'memcached' }), 4)
          .ask()
          .answer(3)
          .finish({ lostHits: 1 }),
    ],
    ['a hit that was not sent', () => new History().ask().fail(new StoreError('no connection')).finish()],
    [
      'local counts',
      () =>
        new History(local).ask().answer(4, { degradedBy: 'local' }).ask().answer(3, { degradedBy: 'local' }),
    ],
    [
      'a window that the clock makes longer',
      () => new History({}, { faults: [step] }).ask().execute().answer(4).ask().execute(0).answer(4).finish(),
    ],
  ])('%s', (_, play) => {
    expect(play).not.toThrow()
  })
})

describe('wrong histories', () => {
  test.each<[string, () => unknown]>([
    ['each call is answered once', () => counted(new History(), 4).answer(4, { number: 0 })],
    ['each call is answered by its deadline', () => new History().ask().execute().answer(4, { ms: 60 })],
    [
      'no call waits for an open breaker',
      () => new History(local).ask({ isRefused: true }).answer(4, { degradedBy: 'local', ms: 10 }),
    ],
    ['one version of the rules', () => new History().ask().execute().answer(4, { name: 'v1' })],
    ['one version of the rules', () => new History().ask().execute().answer(4, { limit: 6 })],
    ['remaining is 0 to the limit', () => new History().ask().execute().answer(6)],
    ['reset is within the window', () => new History().ask().execute().answer(4, { reset: 61 })],
    ['reset is within the window', () => new History().ask().execute().answer(4, { reset: 0 })],
    ['not denied while there is room', () => new History().ask().execute().answer(-1)],
    ['an answer is the count of its own hits', () => new History().ask().answer(4)],
    ['an answer is the count of its own hits', () => new History().execute().ask().answer(4)],
    [
      'no two answers have the same count',
      () =>
        new History()
          .ask()
          .ask()
          .execute()
          .answer(4, { number: 0 })
          .answer(4, { number: 1 })
          .execute()
          .finish(),
    ],
    ['a hit is counted once', () => counted(new History(), 4).execute().finish()],
    ['a hit is counted once', () => new History().ask().execute().fail(new StoreError('not sent')).finish()],
    [
      'an accepted hit is counted',
      () =>
        counted(new History({}, { store: 'memcached' }), 4)
          .ask()
          .answer(3)
          .finish(),
    ],
    [
      'unknown outcomes are flagged',
      () => new History().ask().execute().fail(new StoreError('late', true)).finish(),
    ],
    [
      'only the policy error fails a call',
      () => new History({ policy: 'allow' }).ask().fail(new StoreError('late', true)),
    ],
    ['calls fail only by the store', () => new History().ask().fail(new TypeError('x'))],
    [
      'normal service without a fault',
      () => new History(local).ask({ isDisturbed: () => false }).answer(4, { degradedBy: 'local' }),
    ],
    [
      'the local count is exact',
      () =>
        new History(local).ask().answer(4, { degradedBy: 'local' }).ask().answer(4, { degradedBy: 'local' }),
    ],
    ['the local count is exact', () => new History(local).ask().answer(-1, { degradedBy: 'local' })],
    ['the local share', () => new History({ ...local, share: 40 }).ask().answer(4, { degradedBy: 'local' })],
    ['the policy answers', () => new History({ policy: 'allow' }).ask().answer(4, { degradedBy: 'allow' })],
    ['the policy answers', () => new History({ policy: 'deny' }).ask().answer(4, { degradedBy: 'deny' })],
    [
      'a counter lives until its window ends',
      () => new History().ask().execute().answer(4).ask().execute(0).answer(4).finish(),
    ],
    [
      'counters expire after their window',
      () => {
        const history = new History()
        history.executions.addExpiry(KEY, 59)
        return history.ask().execute().answer(4).finish()
      },
    ],
  ])('%s', (invariant, play) => {
    let thrown: unknown
    try {
      play()
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(Violation)
    expect((thrown as Violation).invariant).toBe(invariant)
  })
})
