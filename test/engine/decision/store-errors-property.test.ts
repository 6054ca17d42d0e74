/** Property: any mix of policies, faults, limits and hits is answered as the contract says. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type RuleNode, STORE_ERROR_POLICIES, type StoreErrorPolicy } from '../../../engine/config/rules.ts'
import { StoreError } from '../../../engine/runtime/errors.ts'
import { Code } from '../../../proto/ratelimit.ts'
import { seed, size } from '../../helpers/size.ts'
import { degradedBy, failingEngine, ruleWith } from './failing-engine.ts'

interface Step {
  keys: number[] // rules, in the order of the descriptors
  hits: number
  failing: number[]
}

/** Counts and answers as the contract says, in the plainest way. */
class Model {
  private readonly stored = new Map<number, number>()
  private readonly local = new Map<number, number>()
  readonly degraded: Record<string, number> = {}
  private readonly rules: readonly RuleNode[]
  private readonly defaultPolicy: StoreErrorPolicy

  constructor(rules: readonly RuleNode[], defaultPolicy: StoreErrorPolicy) {
    this.rules = rules
    this.defaultPolicy = defaultPolicy
  }

  /** 'failed', or per descriptor its code and what remains. */
  answer({ keys, hits, failing }: Step): 'failed' | [Code, number][] {
    const policies = keys.map((key) => this.rules[key].onStoreError ?? this.defaultPolicy)
    const isMissing = (i: number) => failing.includes(keys[i])
    const afters = keys.map((key, i) => (isMissing(i) ? null : this.add(this.stored, key, hits)))
    const isFailed = policies.some((policy, i) => policy === 'error' && isMissing(i))
    for (const [i, policy] of policies.entries()) {
      if (!isMissing(i) || (isFailed && policy !== 'error')) continue
      const name = `${keys[i]} ${policy}`
      this.degraded[name] = (this.degraded[name] ?? 0) + hits
    }
    if (isFailed) return 'failed'
    return keys.map((key, i) => {
      const { limit, localShare, isShadow } = this.rules[key]
      const max = limit!.requestsPerUnit
      const over: [Code, number] = [isShadow ? Code.Ok : Code.OverLimit, 0]
      if (afters[i] !== null) return afters[i] <= max ? [Code.Ok, max - afters[i]] : over
      if (policies[i] === 'deny') return over
      if (policies[i] === 'allow') return hits <= max ? [Code.Ok, max] : over
      const localMax = Math.ceil((max * (localShare ?? 100)) / 100)
      const after = this.add(this.local, key, hits)
      return after <= localMax ? [Code.Ok, localMax - after] : over
    })
  }

  private add(counts: Map<number, number>, key: number, hits: number): number {
    const after = (counts.get(key) ?? 0) + hits
    counts.set(key, after)
    return after
  }
}

test('any mix of policies, faults, limits and hits answers as the contract says', () => {
  const policies = fc.constantFrom(...STORE_ERROR_POLICIES)
  const rules = fc.array(
    fc.record({
      policy: fc.option(policies),
      limit: fc.integer({ min: 0, max: 12 }),
      share: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
      isShadow: fc.boolean(),
    }),
    { minLength: 1, maxLength: 5 },
  )
  const key = fc.nat({ max: 4 })
  const step = fc.record({
    keys: fc.array(key, { minLength: 1, maxLength: 6 }),
    hits: fc.integer({ min: 1, max: 4 }),
    failing: fc.array(key, { maxLength: 4 }),
  })
  const steps = fc.array(step, { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(rules, policies, steps, (drawn, defaultPolicy, drawnSteps) => {
      const nodes = drawn.map(({ policy, ...options }, i) => ruleWith(`k${i}`, policy, options))
      const { decide, store, stats } = failingEngine(nodes, { storeErrorPolicy: defaultPolicy })
      const model = new Model(nodes, defaultPolicy)
      for (const { keys: drawnKeys, hits, failing: drawnFailing } of drawnSteps) {
        const keys = drawnKeys.map((drawnKey) => drawnKey % nodes.length)
        const failing = drawnFailing.map((drawnKey) => drawnKey % nodes.length)
        store.failing = new Set(failing.map((i) => `k${i}`))
        const expected = model.answer({ keys, hits, failing })
        const descriptors = keys.map((i) => ({ [`k${i}`]: 'v' }))
        let found: 'failed' | [Code, number][] = 'failed'
        try {
          const response = decide(descriptors, { hits })
          found = response.statuses.map(({ code, limitRemaining }) => [code, limitRemaining])
          expect(degradedBy(response) !== undefined).toBe(keys.some((i) => failing.includes(i)))
        } catch (error) {
          expect(error).toBeInstanceOf(StoreError)
        }
        expect(found).toEqual(expected)
      }
      const degraded = Object.entries(stats()).flatMap(([name, value]) => {
        const parts = /\.d\.k(\d)\.degraded_(\w+)$/.exec(name)
        return parts ? [[`${parts[1]} ${parts[2]}`, value] as const] : []
      })
      expect(Object.fromEntries(degraded)).toEqual(model.degraded)
    }),
    { seed: seed(), numRuns: size({ small: 300, full: 20_000 }) },
  )
})
