/** Where the checker excuses nothing, although it does elsewhere: the same calls, with and without. */
import { expect, test } from 'vitest'
import { Unit } from '../../proto/ratelimit.ts'
import type { Answer } from './answer.ts'
import { checkEffect, checkNoneFlagged } from './effects.ts'
import type { HistoryOptions } from './history.ts'
import type { FaultRule } from './model.ts'
import { ALLOW, answer, at, DAY_SEC, DENY, ERROR, LIMIT, rule, Script, status } from './scripted-history.ts'

const READ_NONE = async (keys: readonly string[]) => keys.map(() => null)

test('never degraded: no call is excused, on any machine', async () => {
  const broken = async (isNeverDegraded: boolean, lagMs: number) => {
    const s = new Script({ backMs: 0, isNeverDegraded, lagMs: () => lagMs })
    s.history.beginWarmUp()
    s.ask(10, ALLOW, 1, 'allow')
    s.history.endWarmUp(at(0))
    s.nowMs = 1
    for (let i = 0; i < 1_000; i++) s.ask(-1, ERROR, LIMIT + 1)
    s.ask(10, ALLOW, 1, 'allow')
    await s.history.closeRound(0, READ_NONE, () => at(DAY_SEC * 1_000))
    return s.broken
  }
  expect(await broken(false, 0), 'a few may be degraded').toEqual([])
  expect(await broken(true, 0)).toEqual(['normal'])
  expect(await broken(true, 1_000), 'however busy').toEqual(['normal'])
})

test('a store that keeps no count is noticed between losses; one that may evict any counter is not', async () => {
  const broken = async (options: HistoryOptions) => {
    const s = new Script({ backMs: Number.POSITIVE_INFINITY, ...options })
    s.history.beginLoss()
    s.history.endLoss()
    for (const left of [9, 8, 7, 6, 5]) s.ask(left)
    for (let i = 0; i < 100; i++) s.ask(4)
    await s.history.closeRound(0, READ_NONE, () => at(1))
    return s.broken
  }
  expect(await broken({ mayEvict: true })).toEqual([])
  expect(await broken({ mayEvict: ({ unit }) => unit === 'day' })).toEqual([])
  expect(await broken({ losesSome: true, mayEvict: ({ unit }) => unit === 'second' })).toContain('admitted')
  expect(await broken({ losesSome: true })).toEqual(['remaining', 'once', 'admitted'])
})

test('some counts are lost: any count up to what was possible before is sound, and no limit is exceeded after it', () => {
  const run = (afterLoss: number[]) => {
    const s = new Script({ backMs: Number.POSITIVE_INFINITY, losesSome: true })
    for (const left of [9, 8, 7, 6]) s.ask(left)
    s.history.beginLoss()
    s.ask(7)
    s.history.endLoss()
    for (const left of afterLoss) s.ask(left)
    return s.broken
  }
  expect(run([9, 8])).toEqual([])
  expect(run([4, 3])).toEqual([])
  expect(run([3]), 'more than were sent').toEqual(['remaining'])
  expect(run([6, 6]), 'the same count twice').toContain('once')
})

test('a moment in which counts may be lost is like a loss that begins and ends', () => {
  const run = (isLost: boolean) => {
    const s = new Script({ backMs: Number.POSITIVE_INFINITY, losesSome: true })
    for (const left of [9, 8, 7]) s.ask(left)
    if (isLost) s.history.loseNow()
    s.ask(9)
    return s.broken
  }
  expect(run(true)).toEqual([])
  expect(run(false)).toEqual(['remaining', 'once'])
})

const OTHER = rule('deny', { key: 'other' })

test('hits of a degraded call with several descriptors are flagged where its answer tells which were counted', async () => {
  const broken = async (hasMetadata: boolean, unknownHits: number) => {
    const s = new Script({ backMs: Number.POSITIVE_INFINITY })
    s.history.beginFault()
    for (let i = 0; i < 100; i++) {
      const denied = answer([status(-1), status(-1)], 'deny')
      s.history.end(
        s.begin([DENY, OTHER]),
        { ...denied, ...(hasMetadata && { policies: ['deny', 'deny'] }) } as Answer,
        at(0),
      )
    }
    await s.history.closeRound(
      0,
      async (keys) => keys.map(() => 100),
      () => at(1),
    )
    s.history.checkFlagged(unknownHits)
    return s.broken
  }
  expect(await broken(false, 0), 'the header alone does not tell').toEqual([])
  expect(await broken(true, 0)).toEqual(['flagged'])
  expect(await broken(true, 199)).toEqual(['flagged'])
  expect(await broken(true, 200)).toEqual([])
})

test('calls that a fault spares are counted while it lasts', async () => {
  const broken = async (of: FaultRule | FaultRule[], isSpared: boolean) => {
    const s = new Script({ isSpared: ({ key }) => isSpared && key === 'allow' })
    s.history.beginWarmUp()
    for (let i = 0; i < 30; i++)
      s.ask(
        [of].flat().map(() => 10),
        of,
        1,
        'allow',
      )
    s.history.endWarmUp(at(0))
    s.history.beginFault()
    s.nowMs = 1
    for (let i = 0; i < 30; i++)
      s.ask(
        [of].flat().map(() => 10),
        of,
        1,
        'allow',
      )
    await s.history.closeRound(0, READ_NONE, () => at(DAY_SEC * 1_000))
    return s.broken
  }
  expect(await broken(ALLOW, true)).toEqual(['normal'])
  expect(await broken(ALLOW, false)).toEqual([])
  expect(await broken([ALLOW, rule('allow', { key: 'other' })], true), 'one rule is not spared').toEqual([])
})

test('a fault without an effect, and hits flagged although all is known', () => {
  const none = new Script()
  none.history.beginWarmUp()
  none.ask(10, ALLOW, 1, 'allow') // does not count as an effect of a fault
  none.history.endWarmUp(at(0))
  none.history.beginFault()
  none.ask(8, ALLOW)
  checkEffect(none.history, none.history.takeEffect(), null)
  checkNoneFlagged(none.history, 0)
  expect(none.broken).toEqual(['effect'])
  const some = new Script()
  some.history.beginFault()
  some.ask(10, ALLOW, 1, 'allow')
  checkEffect(some.history, some.history.takeEffect(), null)
  expect(some.broken).toEqual([])
  checkNoneFlagged(some.history, 1)
  expect(some.broken).toEqual(['flagged'])
  const slow = new Script()
  const call = slow.begin()
  slow.nowMs = 30
  slow.end(call, 9)
  const effect = slow.history.takeEffect()
  checkEffect(slow.history, effect, 30)
  expect(slow.broken).toEqual([])
  checkEffect(slow.history, effect, 31)
  expect(slow.broken).toEqual(['effect'])
})

test('a counter that a call names twice: the same count for both only where the store counts so', () => {
  const run = (countsRepeatsAlike: boolean, of: FaultRule[]) => {
    const s = new Script({ backMs: Number.POSITIVE_INFINITY, countsRepeatsAlike })
    const calls = of.length === 1 ? [s.begin(of), s.begin(of)] : [s.begin(of)]
    for (const call of calls)
      s.end(
        call,
        call.items.map(() => 9),
      )
    return s.broken
  }
  expect(run(true, [ERROR, ERROR])).toEqual([])
  expect(run(false, [ERROR, ERROR])).toEqual(['once'])
  expect(run(true, [ERROR]), 'two calls').toEqual(['once'])
})

test('an answer by the former, lower limit that arrives last is sound; more than the higher limit is not', () => {
  const versions = rule('error', { limits: [LIMIT, LIMIT + 1] })
  const newer = { currentLimit: { name: '', requestsPerUnit: LIMIT + 1, unit: Unit.Day } }
  const s = new Script({ backMs: Number.POSITIVE_INFINITY })
  s.ask(1, versions, LIMIT - 1)
  const [older, last] = [s.begin(versions), s.begin(versions)]
  s.history.end(last, answer([status(0, newer)]), at(0))
  s.end(older, 0)
  expect(s.history.violations).toEqual([])
  s.ask(0, versions)
  expect(s.broken).toContain('admitted')
})

test('a round in which calls were not counted: an alarm, unless the service had no core', async () => {
  const broken = async (waitedShare: number) => {
    const s = new Script({ backMs: 0, waitedMs: (fromMs, toMs) => waitedShare * (toMs - fromMs) })
    s.history.beginFault()
    s.history.endFault(at(0))
    s.nowMs = 1
    for (let i = 0; i < 70; i++) s.ask(-1, ERROR, LIMIT + 1)
    for (let i = 0; i < 30; i++) s.ask(10, ALLOW, 1, 'allow')
    await s.history.closeRound(0, READ_NONE, () => at(DAY_SEC * 1_000))
    return { broken: s.broken, untimed: s.history.counts.untimedRounds }
  }
  expect(await broken(0.1)).toEqual({ broken: ['normal'], untimed: 0 })
  expect(await broken(0.4)).toEqual({ broken: ['normal'], untimed: 0 })
  expect(await broken(0.7)).toEqual({ broken: [], untimed: 1 })
})

test('one call much too late: an alarm, unless the service had no core so long', () => {
  const broken = (overMs: number, waited: number) => {
    const s = new Script({ backMs: Number.POSITIVE_INFINITY, waitedMs: () => waited })
    const call = s.begin(ERROR, 1, 100)
    s.nowMs = 100 + overMs
    s.end(call, 9)
    return s.broken
  }
  expect(broken(490, 0)).toEqual([])
  expect(broken(510, 0)).toEqual(['deadline'])
  expect(broken(1_500, 990)).toEqual(['deadline'])
  expect(broken(1_500, 1_010)).toEqual([])
})
