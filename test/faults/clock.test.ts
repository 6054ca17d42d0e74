/**
 * The system clock is set while hits are counted: forward and back, by seconds to years, also in the middle of a window. The model is one
 * integer per key and window; a hit belongs to the window that the clock names when it arrives.
 *
 *     clock    100   130   90    125   300   125
 *     hit       x     x     x     x     x     x        windows of 60 s
 *     count     1     1     2     2     1     3        Redis: each window continues where it was
 *                                             3 or 1   memory: or anew, as it had ended by more than 2 s and its slot may be another's
 */
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../../engine/decision/engine.ts'
import { unitSec, windowStartSec } from '../../engine/decision/window.ts'
import type { Batch } from '../../engine/stores/batch.ts'
import type { CounterStore } from '../../engine/stores/counter-store.ts'
import { MemoryStore } from '../../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../../engine/stores/memory/table-layout.ts'
import { Code, type DescriptorStatus, Unit } from '../../proto/ratelimit.ts'
import { engine, NOON, rule } from '../engine/harness.ts'
import { connectRedisStore } from '../engine/stores/store-harness.ts'
import { startRedis } from '../helpers/redis.ts'
import { seed, size } from '../helpers/size.ts'

const LIMIT = 5
const GRACE_SEC = 2 // from a window's end to the reuse of its slot (memory-store.ts)
const LATEST_SEC = NOON + 40 * 365 * 86_400
const UNITS = { s: Unit.Second, m: Unit.Minute, h: Unit.Hour, d: Unit.Day, y: Unit.Year }

type Event =
  | { kind: 'hit'; key: keyof typeof UNITS; value: string; hits: number }
  | { kind: 'step'; sec: number }

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('hit' as const),
      key: fc.constantFrom('s', 'm', 'h', 'd', 'y'),
      value: fc.constantFrom('a', 'b'),
      hits: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(1, -1, 2, -3, 61, -61, 3_600, -3_600, 86_400, -86_400, 31_536_000, -31_536_000)
      .map((sec): Event => ({ kind: 'step', sec })),
  },
)

/** What counts a window may have; the first difference from the answers is returned. */
class Model {
  private readonly counts = new Map<string, number[]>()
  private readonly mayRestart: boolean
  private latestSec = 0

  /** `mayRestart`: a window that had ended may count anew. */
  constructor(mayRestart: boolean) {
    this.mayRestart = mayRestart
  }

  check(name: string, hits: number, lengthSec: number, nowSec: number, status: DescriptorStatus): string {
    const startSec = windowStartSec(nowSec, lengthSec)
    const window = `${name} ${startSec}`
    this.latestSec = Math.max(this.latestSec, nowSec)
    const known = this.counts.get(window) ?? [0]
    const hadEnded = this.latestSec >= startSec + lengthSec + GRACE_SEC
    const before = this.mayRestart && hadEnded ? [...new Set([...known, 0])] : known
    const after = before.map((count) => count + hits)
    const isPossible = (count: number) =>
      status.limitRemaining === Math.max(0, LIMIT - count) && (status.code === Code.Ok) === count <= LIMIT
    const possible = after.filter(isPossible)
    this.counts.set(window, possible)
    if (possible.length > 0) return ''
    return `${window}: code ${status.code} with ${status.limitRemaining} remaining, expected a count of ${after.join(' or ')}`
  }
}

const nodes = Object.entries(UNITS).map(([key, unit]) => rule(key, { requestsPerUnit: LIMIT, unit }))

function ask(tested: Engine, key: string, value: string, hits: number): Promise<DescriptorStatus> {
  const descriptors = [{ entries: [{ key, value }], limit: null, hitsAddend: null }]
  return new Promise((resolve, reject) => {
    tested.decide(
      { domain: 'd', descriptors, hitsAddend: hits },
      { isCancelled: false, onDecision: ({ statuses }) => resolve(statuses[0]), onError: reject },
    )
  })
}

/** The first difference, or ''. */
async function run(store: CounterStore, mayRestart: boolean, events: Event[], prefix = ''): Promise<string> {
  let nowSec = NOON + 30
  const { engine: tested } = engine(nodes, { store, nowSec: () => nowSec, keyPrefix: prefix })
  const model = new Model(mayRestart)
  for (const each of events) {
    if (each.kind === 'step') {
      nowSec = Math.min(LATEST_SEC, Math.max(NOON, nowSec + each.sec))
      continue
    }
    const status = await ask(tested, each.key, each.value, each.hits)
    const lengthSec = unitSec(UNITS[each.key])
    if (!(status.resetSec >= 1 && status.resetSec <= lengthSec)) return `resets in ${status.resetSec} s`
    const difference = model.check(`${each.key}=${each.value}`, each.hits, lengthSec, nowSec, status)
    if (difference !== '') return difference
  }
  return ''
}

const createMemoryStore = () => new MemoryStore(createMemoryTable(1 << 16))
const history = fc.array(event, { maxLength: 80 })

test('in memory, a window continues where it was, or anew if it had ended', async () => {
  const check = async (events: Event[]) => {
    expect(await run(createMemoryStore(), true, events)).toBe('')
  }
  await fc.assert(fc.asyncProperty(history, check), {
    seed: seed(),
    numRuns: size({ small: 200, full: 20_000 }),
  })
})

test('in Redis, every window continues where it was', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const { store } = await connectRedisStore(redis.address)
  let runs = 0
  const check = async (events: Event[]) => {
    const minutes = events.filter((each) => each.kind === 'step' || each.key !== 's') // Redis's own clock ends those per second
    expect(await run(store, false, minutes, `${runs++} `)).toBe('')
  }
  await fc.assert(fc.asyncProperty(history, check), {
    seed: seed(),
    numRuns: size({ small: 20, full: 5_000 }),
  })
})

test('a store that forgets a running window, and one that counts into another, are noticed', async () => {
  const steps = (...secs: number[]): Event[] =>
    secs.flatMap((sec): Event[] => [
      { kind: 'hit', key: 'h', value: 'a', hits: 1 },
      { kind: 'step', sec },
    ])
  class Forgetful extends MemoryStore {
    private latestSec = 0
    override add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void {
      if (nowSec < this.latestSec) for (let i = 0; i < batch.slotsCount; i++) batch.setPreviousCount(i, 0)
      this.latestSec = Math.max(this.latestSec, nowSec)
      if (nowSec < this.latestSec) done(batch)
      else super.add(batch, nowSec, done)
    }
  }
  class Joined extends MemoryStore {
    override addOne(_key: string, hits: number, windowEndSec: number, nowSec: number): number {
      return super.addOne('one', hits, windowEndSec, nowSec)
    }
    override add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void {
      for (let i = 0; i < batch.slotsCount; i++)
        batch.setPreviousCount(
          i,
          this.addOne('', batch.hits[i], batch.windowEndSec[i], nowSec) - batch.hits[i],
        )
      done(batch)
    }
  }
  const table = () => createMemoryTable(1 << 16)
  expect(await run(createMemoryStore(), true, steps(61, -61, 0))).toBe('')
  expect(await run(new Forgetful(table()), true, steps(61, -61, 0))).toContain('h=a')
  expect(await run(new Joined(table()), true, steps(3_600, 0))).toContain('h=a')
})
