/** The checker itself: each invariant is fed a history that breaks it, and must name it; sound histories must pass. */
import { expect, test } from 'vitest'
import { Code, Unit } from '../../proto/ratelimit.ts'
import type { Answer } from './answer.ts'
import type { HistoryOptions } from './history.ts'
import {
  ALLOW,
  answer,
  at,
  DAY_SEC,
  DENY,
  ERROR,
  LOCAL,
  rule,
  Script,
  SECOND,
  START_MS,
  status,
} from './scripted-history.ts'
import type { Invariant } from './violations.ts'

const FAULTY = (script: Script) => script.history.beginFault()

// biome-ignore format: a table
const wrong: [name: string, invariant: Invariant, options: HistoryOptions, run: (script: Script) => void][] =
  [
    [
      'a call gets a count that was given before',
      'remaining',
      {},
      (s) => [9, 8, 8].map((left) => s.ask(left)),
    ],
    ['more hits are counted than were sent', 'remaining', {}, (s) => [9, 7].map((left) => s.ask(left))],
    [
      'two calls at the same time get the same count',
      'once',
      {},
      (s) => {
        const calls = [s.begin(), s.begin()]
        for (const call of calls) s.end(call, 9)
      },
    ],
    [
      'more is let through than the limit, one call after the other of unknown outcome',
      'admitted',
      { mayEvict: false },
      (s) => {
        const calls = Array.from({ length: 11 }, () => s.begin())
        for (const [i, call] of calls.entries()) s.end(call, Math.max(0, 9 - i))
      },
    ],
    ['a call is denied while there is room', 'room', {}, (s) => [9, -1].map((left) => s.ask(left))],
    [
      'a call is denied because of hits that were skipped',
      'room',
      { stopsIncrement: true },
      (s) => {
        for (let left = 9; left >= 0; left--) s.ask(left)
        s.ask([-1, 10], [ERROR, DENY])
        for (let left = 9; left >= 0; left--) s.ask(left, DENY)
        s.ask(-1, ALLOW)
      },
    ],
    [
      'skipped hits are counted',
      'remaining',
      { stopsIncrement: true },
      (s) => {
        for (let left = 9; left >= 0; left--) s.ask(left)
        s.ask([-1, 9], [ERROR, DENY])
      },
    ],
    ['more remains than the limit', 'remaining', {}, (s) => s.ask(11)],
    [
      'something remains although it is over',
      'remaining',
      {},
      (s) => {
        const over = status(-1, { limitRemaining: 3 })
        s.history.end(s.begin(ERROR, 11), answer([over]), at(0))
      },
    ],
    [
      'the policy local admits more than its share',
      'admitted',
      {},
      (s) => {
        FAULTY(s)
        const calls = Array.from({ length: 6 }, () => s.begin(LOCAL))
        for (const [i, call] of calls.entries()) s.end(call, Math.max(0, 4 - i), 'local')
      },
    ],
    [
      'the policy local denies while its share has room',
      'room',
      {},
      (s) => {
        FAULTY(s)
        s.ask(-1, LOCAL, 1, 'local')
      },
    ],
    [
      'the policy allow denies',
      'policy',
      {},
      (s) => {
        FAULTY(s)
        s.ask(-1, ALLOW, 1, 'allow')
      },
    ],
    [
      'the policy allow does not show the whole limit',
      'policy',
      {},
      (s) => {
        FAULTY(s)
        s.ask(9, ALLOW, 1, 'allow')
      },
    ],
    [
      'the policy deny lets through',
      'policy',
      {},
      (s) => {
        FAULTY(s)
        s.ask(9, DENY, 1, 'deny')
      },
    ],
    [
      'a policy answers for a rule that has another',
      'policy',
      {},
      (s) => {
        FAULTY(s)
        s.ask(10, DENY, 1, 'allow')
      },
    ],
    [
      'a call fails although no rule says error',
      'policy',
      {},
      (s) => {
        FAULTY(s)
        s.fail(s.begin(ALLOW))
      },
    ],
    [
      'limits of two versions in one answer',
      'version',
      {},
      (s) => {
        const rules = [rule('error', { limits: [10, 11] }), rule('deny', { limits: [10, 11] })]
        const second = status(10, { currentLimit: { name: '', requestsPerUnit: 11, unit: Unit.Day } })
        s.history.end(s.begin(rules), answer([status(9), second]), at(0))
      },
    ],
    [
      'a limit of no version',
      'format',
      {},
      (s) => {
        const other = status(4, { currentLimit: { name: '', requestsPerUnit: 5, unit: Unit.Day } })
        s.history.end(s.begin(), answer([other]), at(0))
      },
    ],
    ['a status is missing', 'format', {}, (s) => s.end(s.begin([ERROR, DENY]), 9)],
    ['no reset', 'format', {}, (s) => s.history.end(s.begin(), answer([status(9, { resetSec: 0 })]), at(0))],
    [
      'the overall code does not follow',
      'format',
      {},
      (s) => {
        const wrongCode = { ...answer([status(9)]), overallCode: Code.OverLimit } as Answer
        s.history.end(s.begin(), wrongCode, at(0))
      },
    ],
    [
      'an answer comes much too late',
      'deadline',
      {},
      (s) => {
        const call = s.begin(ERROR, 1, 100)
        s.nowMs = 3_000
        s.end(call, 9)
      },
    ],
    [
      'calls are late on a machine that is not busy',
      'deadline',
      { lagMs: () => 1 },
      (s) => {
        for (let i = 0; i < 30; i++) {
          const call = s.begin(ALLOW, 1, 100)
          s.nowMs += 500
          s.end(call, 10, 'allow')
        }
        s.history.checkLate()
      },
    ],
    [
      'calls are given up',
      'deadline',
      {},
      (s) => {
        for (let i = 0; i < 30; i++) s.fail(s.begin(ERROR, 1, 100), '4 Deadline exceeded')
        s.history.checkLate()
      },
    ],
  ]
test.each(wrong)('%s: %s', (_name, invariant, options, run) => {
  const script = new Script({ backMs: Number.POSITIVE_INFINITY, ...options })
  run(script)
  expect(script.broken).toContain(invariant)
  expect(script.history.violations.find((each) => each.invariant === invariant)!.examples[0]).not.toBe('')
})

// biome-ignore format: a table
const sound: [name: string, options: HistoryOptions, run: (script: Script) => void][] = [
  [
    'one call after the other, until the limit and beyond',
    {},
    (s) => {
      for (let left = 9; left >= 0; left--) s.ask(left)
      s.ask(-1)
    },
  ],
  [
    'calls at the same time, answered in another order than counted',
    {},
    (s) => {
      const calls = [s.begin(), s.begin(ERROR, 3), s.begin()]
      s.end(calls[2], 9)
      s.end(calls[0], 5)
      s.end(calls[1], 6)
    },
  ],
  [
    'a failed call may have been counted, or not',
    {},
    (s) => {
      FAULTY(s)
      s.fail(s.begin(ERROR, 4))
      s.ask(9)
      s.ask(4)
    },
  ],
  [
    'a call in flight may be what denies another',
    {},
    (s) => {
      const call = s.begin(ERROR, 10)
      s.ask(-1)
      s.end(call, 0)
    },
  ],
  [
    'at the end of a window either one may count it',
    {},
    (s) => {
      s.nowMs = 990
      const call = s.begin(SECOND)
      s.nowMs = 1_010
      s.ask(8, SECOND) // counted after the other one, in the new window
      s.end(call, 9)
    },
  ],
  [
    'a new window begins at 0',
    {},
    (s) => {
      s.ask(0, SECOND, 10)
      s.nowMs = 1_000
      s.ask(9, SECOND)
    },
  ],
  [
    'each policy as it says',
    {},
    (s) => {
      FAULTY(s)
      s.fail(s.begin(ERROR))
      s.ask(10, ALLOW, 1, 'allow')
      s.ask(-1, DENY, 1, 'deny')
      for (let left = 4; left >= 0; left--) s.ask(left, LOCAL, 1, 'local')
      s.ask(-1, LOCAL, 1, 'local')
      s.ask([10, -1, 4], [ALLOW, DENY, rule('local', { key: 'other' })], 1, 'deny')
    },
  ],
  [
    'hits are skipped where another limit is exceeded',
    { stopsIncrement: true },
    (s) => {
      for (let left = 9; left >= 0; left--) s.ask(left)
      s.ask([-1, 10], [ERROR, DENY])
      s.ask(9, DENY)
    },
  ],
  [
    'the store lost its counts',
    {},
    (s) => {
      for (let left = 9; left >= 0; left--) s.ask(left)
      s.history.beginLoss()
      s.ask(4)
      s.history.endLoss()
      s.ask(9)
      s.ask(8)
    },
  ],
  ['the store evicts counters', { mayEvict: true }, (s) => [9, 8, 9].map((left) => s.ask(left))],
  [
    'one version after the other',
    {},
    (s) => {
      const both = rule('error', { limits: [10, 11] })
      s.ask(9, both)
      const later = status(9, { currentLimit: { name: '', requestsPerUnit: 11, unit: Unit.Day } })
      s.history.end(s.begin(both), answer([later]), at(0))
    },
  ],
  [
    'late answers are excused where this process was late itself',
    { lagMs: () => 40 },
    (s) => {
      for (let i = 0; i < 30; i++) {
        const call = s.begin(ALLOW, 1, 100)
        s.nowMs += 500
        s.end(call, 10, 'allow')
      }
      s.history.checkLate()
    },
  ],
]
test.each(sound)('sound: %s', (_name, options, run) => {
  const script = new Script({ backMs: Number.POSITIVE_INFINITY, ...options })
  run(script)
  expect(script.history.violations).toEqual([])
})

const closing: [name: string, invariant: Invariant | null, value: number | null, unknownHits: number][] = [
  ['all there', null, 5, 0],
  ['with the failed one, flagged', null, 7, 2],
  ['with the failed one, not flagged', 'flagged', 7, 1],
  ['a counted hit is missing', 'once', 4, 0],
  ['all are missing', 'once', null, 0],
  ['more than was sent', 'once', 8, 3],
]
test.each(closing)('the store has %s: %s', async (_name, invariant, value, unknownHits) => {
  const s = new Script({ namePrefix: 'shop_', backMs: Number.POSITIVE_INFINITY })
  s.ask(5, ERROR, 5)
  s.history.beginFault()
  s.fail(s.begin(ERROR, 2))
  const seen: string[] = []
  const read = async (keys: readonly string[]) => {
    seen.push(...keys)
    return keys.map(() => value)
  }
  await s.history.closeRound(0, read, () => at(10))
  s.history.checkFlagged(unknownHits)
  expect(seen).toEqual([`shop_error_a_${Math.floor(START_MS / 1_000 / DAY_SEC) * DAY_SEC}`])
  expect(s.broken).toEqual(invariant === null ? [] : [invariant])
})

test('normal: calls from 2 s after a fault must be counted; a few may not', async () => {
  const s = new Script()
  const read = async (keys: readonly string[]) => keys.map(() => null)
  s.history.beginFault()
  for (let i = 0; i < 100; i++) s.ask(10, ALLOW, 1, 'allow')
  s.history.endFault(at(0))
  s.nowMs = 1_900
  for (let i = 0; i < 100; i++) s.ask(10, ALLOW, 1, 'allow')
  await s.history.closeRound(0, read, () => at(s.nowMs))
  expect(s.broken).toEqual([])
  s.nowMs = 2_100
  for (let i = 0; i < 20; i++) s.ask(10, ALLOW, 1, 'allow')
  await s.history.closeRound(0, read, () => at(s.nowMs))
  expect(s.broken).toEqual([])
  for (let i = 0; i < 21; i++) s.ask(10, ALLOW, 1, 'allow')
  await s.history.closeRound(0, read, () => at(s.nowMs))
  expect(s.broken).toEqual(['normal'])
  expect(s.history.violations[0].examples).toEqual([
    '21 of 21 calls were not counted; own lag 0 ms, the service waited 0 % of the time for a core; the first: degraded by allow 2100 ms after the fault',
  ])
})

test('an example names the call; only the first ones are kept', () => {
  const s = new Script()
  for (let i = 0; i < 10; i++) s.ask(11)
  const [{ invariant, count, examples }] = s.history.violations
  expect([invariant, count]).toEqual(['remaining', expect.any(Number)])
  expect(examples).toHaveLength(3)
  expect(examples[0]).toBe('11 of 10 remain, code 1 (round 0, error=a x1)')
})
