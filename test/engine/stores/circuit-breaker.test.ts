/** The circuit breaker under an injected clock: when it opens, how it probes, when it closes. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seed, size } from '../../helpers/size.ts'
import { ClockedBreaker, OPTIONS } from './clocked-breaker.ts'

describe('opens', () => {
  test('when so many trips in a row failed, and names the last failure', () => {
    const tested = new ClockedBreaker()
    tested.succeed(1_000)
    tested.fail(4)
    tested.succeed(1)
    tested.fail(4, 'x')
    expect(tested.breaker.isOpen).toBe(false)
    tested.fail(1, 'connection lost (ECONNRESET)')
    expect(tested.changes).toEqual(['5 trips in a row failed, the last with: connection lost (ECONNRESET)'])
  })

  test('also when the failures of a quiet service are far apart', () => {
    const tested = new ClockedBreaker()
    for (let i = 0; i < 5; i++) {
      tested.fail(1)
      tested.pass(60_000)
    }
    expect(tested.breaker.isOpen).toBe(true)
  })

  test('when at least the share of ten trips or more of the window failed', () => {
    const tested = new ClockedBreaker({ failuresInRow: 100 })
    for (let i = 0; i < 4; i++) {
      tested.fail(1)
      tested.succeed(1)
    }
    expect(tested.breaker.isOpen, '8 trips').toBe(false)
    tested.fail(1)
    tested.succeed(1)
    expect(tested.breaker.isOpen, 'it is judged at a bad trip').toBe(false)
    tested.fail(1, 'OOM')
    expect(tested.changes).toEqual([
      '6 of 11 trips within 2000 ms failed or took more than 10 ms, the last with: OOM',
    ])
  })

  test('when the share of slow trips is reached', () => {
    const tested = new ClockedBreaker()
    tested.succeed(10, 10)
    tested.succeed(9, 10.5)
    expect(tested.breaker.isOpen).toBe(false)
    tested.succeed(1, 11)
    expect(tested.changes).toEqual(['10 of 20 trips within 2000 ms failed or took more than 10 ms'])
  })

  test('when calls reach their deadlines and no trip has ended for so long', () => {
    const tested = new ClockedBreaker()
    tested.succeed(1_000)
    tested.waitingSinceMs = tested.nowMs
    tested.pass(15)
    tested.breaker.onLate() // silence counts from here
    tested.pass(49)
    tested.breaker.onLate()
    expect(tested.breaker.isOpen).toBe(false)
    tested.pass(1)
    tested.breaker.onLate()
    expect(tested.changes).toEqual(['no reply for 50 ms, and calls reached their deadlines'])
  })

  test('not for silence while trips end, while none is waiting, between calls that were late, or when it is off', () => {
    const tested = new ClockedBreaker()
    tested.waitingSinceMs = tested.nowMs
    for (let i = 0; i < 20; i++) {
      tested.breaker.onLate()
      tested.succeed(1)
      tested.pass(40)
    }
    tested.breaker.onLate()
    tested.waitingSinceMs = null // the last reply was for a call that was not late
    tested.pass(60_000)
    tested.breaker.onLate()
    tested.waitingSinceMs = tested.nowMs // the first trip after a quiet minute
    tested.pass(20)
    tested.breaker.onLate()
    expect(tested.breaker.isOpen, 'waits for 20 ms').toBe(false)
    tested.pass(30)
    tested.breaker.onLate()
    expect(tested.breaker.isOpen, 'and for 50 ms').toBe(true)
    for (const options of [{ silenceMs: 0 }, { failuresInRow: 0 }]) {
      const off = new ClockedBreaker(options)
      off.waitingSinceMs = off.nowMs
      off.breaker.onLate()
      off.pass(60_000)
      off.breaker.onLate()
      expect(off.breaker.isOpen, JSON.stringify(options)).toBe(false)
    }
  })

  test('a failed trip ends the silence, and closing forgets it', () => {
    const tested = new ClockedBreaker()
    const { breaker } = tested
    tested.waitingSinceMs = tested.nowMs
    breaker.onLate()
    tested.pass(49)
    tested.fail(1)
    breaker.onLate()
    tested.pass(49)
    breaker.onLate()
    expect(breaker.isOpen).toBe(false)
    tested.pass(1)
    breaker.onLate()
    expect(breaker.isOpen).toBe(true)
    tested.answer = () => true
    tested.pass(1_000)
    expect(breaker.isOpen).toBe(false)
    breaker.onLate()
    expect(breaker.isOpen).toBe(false)
  })

  test('not for slowness without a latency, and not at all with 0 failures', () => {
    const patient = new ClockedBreaker({ latencyMs: 0 })
    expect(patient.breaker.isTiming).toBe(false)
    patient.succeed(1_000, 60_000)
    const off = new ClockedBreaker({ failuresInRow: 0 })
    off.fail(1_000)
    off.succeed(1_000, 60_000)
    expect([...patient.changes, ...off.changes]).toEqual([])
  })

  test('not for a share below the threshold, however long', () => {
    const tested = new ClockedBreaker()
    for (let i = 0; i < 1_000; i++) {
      tested.succeed(6)
      tested.fail(4)
      tested.pass(37)
    }
    expect(tested.changes).toEqual([])
  })

  test('an hour of success does not hide a fault', () => {
    const tested = new ClockedBreaker({ failuresInRow: 1_000 })
    tested.succeed(10_000_000)
    tested.pass(3_600_000)
    tested.succeed(5)
    tested.fail(9)
    expect(tested.breaker.isOpen).toBe(false)
    tested.fail(1)
    expect(tested.breaker.isOpen).toBe(true)
  })

  test('the trips of both halves of the window count', () => {
    const tested = new ClockedBreaker({ failuresInRow: 100 })
    tested.fail(4)
    tested.succeed(5)
    tested.pass(OPTIONS.windowMs / 2)
    tested.fail(1, 'OOM')
    expect(tested.changes).toEqual([
      '5 of 10 trips within 2000 ms failed or took more than 10 ms, the last with: OOM',
    ])
  })

  test('a half begins with the first bad trip half a window after the last began', () => {
    const tested = new ClockedBreaker({ failuresInRow: 100, latencyMs: 0 })
    tested.fail(4)
    tested.succeed(10)
    tested.pass(OPTIONS.windowMs / 2)
    tested.fail(1)
    tested.succeed(20)
    tested.fail(3)
    tested.pass(OPTIONS.windowMs - 1)
    tested.fail(15)
    expect(tested.changes, '19 of 39: of the trips before, 4 of 24').toEqual([])
    tested.fail(1, 'no reply')
    expect(tested.changes).toEqual(['20 of 40 trips within 2000 ms failed, the last with: no reply'])
  })

  test('bad trips leave the window after its length', () => {
    const tested = new ClockedBreaker()
    tested.succeed(11)
    tested.succeed(9, 11)
    tested.pass(2_000)
    tested.succeed(9, 11)
    expect(tested.changes).toEqual([])
  })
})

describe('while open', () => {
  test('one probe per interval, with jitter, until so many in a row succeed', () => {
    const tested = new ClockedBreaker()
    tested.fail(5)
    const openMs = tested.nowMs
    tested.pass(199)
    expect(tested.probesMs).toEqual([])
    tested.pass(401)
    expect(tested.probesMs).toEqual([openMs + 200, openMs + 400, openMs + 600])
    tested.random = 0
    tested.pass(1_000)
    expect(tested.probesMs.slice(3, 6).map((ms) => ms - openMs)).toEqual([800, 960, 1_120])
    const answers = [true, false, true, true]
    tested.answer = () => answers.shift()!
    tested.pass(2_000)
    expect(answers).toEqual([])
    expect(tested.changes.slice(1)).toEqual(['closed'])
    expect(tested.timersCount, 'no probes when it is closed').toBe(0)
  })

  test('a probe that waits is the only one', () => {
    const tested = new ClockedBreaker({ latencyMs: 0 })
    tested.fail(5)
    tested.answer = null
    tested.pass(60_000)
    expect(tested.probesMs).toHaveLength(1)
    tested.breaker.probeSoon()
    tested.pass(60_000)
    expect(tested.probesMs).toHaveLength(1)
    tested.waiting[0](true)
    tested.pass(200)
    tested.waiting[1](true)
    expect(tested.breaker.isOpen).toBe(false)
  })

  test('a slow probe does not count as a success', () => {
    const tested = new ClockedBreaker({ successes: 1 })
    tested.fail(5)
    tested.answer = null
    tested.pass(200)
    tested.pass(11)
    tested.waiting[0](true)
    expect(tested.breaker.isOpen).toBe(true)
    tested.pass(200)
    tested.pass(10)
    tested.waiting[1](true)
    expect(tested.breaker.isOpen).toBe(false)
  })

  test('the results of trips change nothing; probeSoon probes at once', () => {
    const tested = new ClockedBreaker()
    tested.fail(5)
    tested.fail(100)
    tested.succeed(100)
    expect(tested.changes).toHaveLength(1)
    tested.answer = () => true
    tested.breaker.probeSoon()
    tested.pass(0)
    expect(tested.probesMs).toHaveLength(1)
    tested.pass(200)
    expect(tested.changes.slice(1)).toEqual(['closed'])
    tested.breaker.probeSoon()
    expect(tested.timersCount).toBe(0)
  })

  test('probeSoon probes at once after a probe that failed, too', () => {
    const tested = new ClockedBreaker()
    tested.fail(5)
    tested.pass(200)
    tested.pass(1)
    tested.breaker.probeSoon()
    tested.pass(0)
    expect(tested.probesMs.map((ms) => ms - tested.probesMs[0])).toEqual([0, 1])
  })

  test('closed again it starts from nothing', () => {
    const tested = new ClockedBreaker()
    tested.fail(50)
    tested.answer = () => true
    tested.pass(1_000)
    expect(tested.breaker.isOpen).toBe(false)
    tested.fail(4)
    expect(tested.breaker.isOpen).toBe(false)
  })

  test('a breaker of a node that is not used any more probes nothing and does not change', () => {
    const tested = new ClockedBreaker()
    tested.fail(5)
    tested.breaker.close()
    tested.pass(10_000)
    expect(tested.probesMs).toEqual([])
    const probing = new ClockedBreaker({ successes: 1 })
    probing.fail(5)
    probing.answer = null
    probing.pass(200)
    probing.breaker.close()
    probing.waiting[0](true)
    expect([probing.changes.length, probing.timersCount], 'a late reply to a probe').toEqual([1, 0])
    const unopened = new ClockedBreaker()
    unopened.breaker.close()
    unopened.fail(50)
    expect(unopened.changes).toEqual([])
  })
})

type Event = { kind: 'ok' | 'slow' | 'fail' } | { kind: 'pass'; ms: number }

test('any history: open only for a stated reason, at most one probe per interval, closed only after enough probes', () => {
  const event: fc.Arbitrary<Event> = fc.oneof(
    fc.constantFrom<Event>({ kind: 'ok' }, { kind: 'slow' }, { kind: 'fail' }),
    fc.integer({ min: 1, max: 1_500 }).map((ms): Event => ({ kind: 'pass', ms })),
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 400 }), fc.infiniteStream(fc.boolean()), (events, answers) => {
      const tested = new ClockedBreaker()
      const { breaker } = tested
      const trips: { atMs: number; isBad: boolean; isFailed: boolean }[] = [] // since it was closed
      let probesOk = 0 // in a row
      tested.answer = () => {
        const isOk: boolean = answers.next().value
        probesOk = isOk ? probesOk + 1 : 0
        return isOk
      }
      for (const each of events) {
        const wasOpen = breaker.isOpen
        if (each.kind === 'pass') {
          tested.pass(each.ms)
          if (wasOpen && !breaker.isOpen) {
            expect(probesOk).toBeGreaterThanOrEqual(OPTIONS.successes)
            trips.length = 0
          }
          continue
        }
        if (each.kind === 'fail') tested.fail(1)
        else tested.succeed(1, each.kind === 'slow' ? 11 : 1)
        if (!wasOpen)
          trips.push({ atMs: tested.nowMs, isBad: each.kind !== 'ok', isFailed: each.kind === 'fail' })
        if (wasOpen || !breaker.isOpen) {
          expect(
            wasOpen ||
              trips.slice(-OPTIONS.failuresInRow).some(({ isFailed }) => !isFailed) ||
              trips.length < OPTIONS.failuresInRow,
          ).toBe(true)
          continue
        }
        const inRow = trips.slice(-OPTIONS.failuresInRow)
        const isRow = inRow.length === OPTIONS.failuresInRow && inRow.every(({ isFailed }) => isFailed)
        // some suffix of the trips, within the window, has the share
        const isShare = trips.some((_, i) => {
          const suffix = trips.slice(i)
          const bad = suffix.filter(({ isBad }) => isBad).length
          return suffix.length >= 10 && bad >= OPTIONS.share * suffix.length
        })
        expect(isRow || isShare, breaker.reason).toBe(true)
        probesOk = 0
      }
      for (const [i, atMs] of tested.probesMs.entries())
        if (i > 0) expect(atMs - tested.probesMs[i - 1]).toBeGreaterThanOrEqual(OPTIONS.probeIntervalMs)
      expect(tested.timersCount).toBe(breaker.isOpen ? 1 : 0)
    }),
    { seed: seed(), numRuns: size({ small: 200, full: 20_000 }) },
  )
})
