/** An engine whose store fails for chosen rules, for tests of what rules answer then. */
import type { RuleNode, StoreErrorPolicy } from '../../../engine/config/rules.ts'
import type { EngineOptions } from '../../../engine/decision/engine.ts'
import { StoreError } from '../../../engine/runtime/errors.ts'
import type { Batch } from '../../../engine/stores/batch.ts'
import type { CounterStore } from '../../../engine/stores/counter-store.ts'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../../../engine/stores/memory/table-layout.ts'
import type { RateLimitResponse } from '../../../proto/ratelimit.ts'
import { engine, rule } from '../harness.ts'

/** Counts in memory; keys that begin with a name in `failing` are not counted and get an error. */
class FailingStore implements CounterStore {
  readonly isSynchronous = true
  hasCapacity = true
  failing = new Set<string>() // first key of the descriptor
  private readonly inner = new MemoryStore(createMemoryTable(1 << 20))

  add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void {
    const counted: Batch['hits'] = []
    for (let slot = 0; slot < batch.slotsCount; slot++) {
      counted[slot] = batch.hits[slot]
      const { key } = batch.counters[slot]
      if (!this.isFailing(key))
        batch.setPreviousCount(slot, this.addOne(key, counted[slot], nowSec) - counted[slot])
      else batch.setError(slot, new StoreError(`cannot count ${key}`))
    }
    done(batch)
  }

  private addOne(key: string, hits: number, nowSec: number): number {
    return this.inner.addOne(key, hits, nowSec + 60, nowSec)
  }

  private isFailing(key: string): boolean {
    return [...this.failing].some((name) => key.startsWith(`d_${name}_`))
  }

  async connect(): Promise<void> {}
  async close(): Promise<void> {}
}

interface RuleOptions {
  limit?: number
  share?: number
  isShadow?: boolean
}

export function ruleWith(key: string, policy: StoreErrorPolicy | null, options: RuleOptions = {}): RuleNode {
  const { limit = 10, share = null, isShadow = false } = options
  return { ...rule(key, { requestsPerUnit: limit }), onStoreError: policy, localShare: share, isShadow }
}

export function failingEngine(nodes: RuleNode[], options: Partial<EngineOptions> = {}) {
  const store = new FailingStore()
  const localStore = new MemoryStore(createMemoryTable(1 << 20))
  const tested = engine(nodes, { store, localStore, hasDegradedHeader: true, ...options })
  return { ...tested, store, localStore }
}

/** The value of the header. */
export function degradedBy({ responseHeadersToAdd }: RateLimitResponse): string | undefined {
  return responseHeadersToAdd.find(({ key }) => key === 'x-ratelimit-degraded')?.value
}
