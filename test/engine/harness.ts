/** An engine on its own memory store, with the clock at noon, for tests of decisions. */

import type { RuleLimit, RuleNode } from '../../engine/config/rules.ts'
import { Engine, type EngineOptions } from '../../engine/decision/engine.ts'
import { compile } from '../../engine/match/compile.ts'
import { Stats } from '../../engine/stats/stats.ts'
import { MemoryStore } from '../../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../../engine/stores/memory/table-layout.ts'
import {
  type Descriptor,
  type Entry,
  type RateLimitRequest,
  type RateLimitResponse,
  Unit,
} from '../../proto/ratelimit.ts'

const DECISIONS = 'decisions'
export const NOON = 1_763_640_000 // divisible by 60 and 3,600: a fresh window of both

interface DecideOptions {
  hits?: number
  descriptorHits?: number
  override?: { requestsPerUnit: number; unit: number }
}

export function engine(nodes: RuleNode[] | null, options: Partial<EngineOptions> = {}) {
  const collected = new Stats()
  const store = new MemoryStore(createMemoryTable(1 << 20))
  const tested = new Engine({
    store,
    stats: collected,
    decisionsStat: DECISIONS,
    nowSec: () => NOON,
    random: () => 0,
    nearLimitRatio: 0.8,
    keyPrefix: '',
    jitterMaxSec: 0,
    isShadow: false,
    isQuota: false,
    stopIncrementWhenOverLimit: false,
    hasMetadata: false,
    localCache: null,
    storeErrorPolicy: 'error',
    localStore: null,
    hasDegradedHeader: false,
    decisionTimeoutMs: 0,
    headerNames: null,
    ...options,
  })
  if (nodes) tested.setRules(compile([{ name: 'd', nodes }]))
  const decideRequest = (request: RateLimitRequest): RateLimitResponse => {
    let result: RateLimitResponse | Error = new Error('the memory store did not respond immediately')
    tested.decide(request, {
      isCancelled: false,
      onDecision(response) {
        result = response
      },
      onError(error) {
        result = error
      },
    })
    if (result instanceof Error) throw result
    return result
  }
  const totals: Record<string, number> = {}
  const stats = () => {
    const { names, values } = collected.takeDeltas()
    names.forEach((name, i) => {
      if (name !== DECISIONS && values[i] !== 0) totals[name] = (totals[name] ?? 0) + values[i]
    })
    return totals
  }
  return {
    engine: tested,
    decideRequest,
    stats,
    store,
    decide(
      entries: Record<string, string> | Record<string, string>[],
      { hits = 0, descriptorHits, override }: DecideOptions = {},
    ) {
      const descriptors = [entries].flat().map((each) => {
        return { ...descriptor(each), hitsAddend: descriptorHits ?? null, limit: override ?? null }
      })
      return decideRequest({ domain: 'd', descriptors, hitsAddend: hits })
    },
    /** The six counters of rule `d.<path>`, by short name; those never hit are 0 or absent. */
    takeStats(path: string): Record<string, number> {
      const prefix = `ratelimit.service.rate_limit.d.${path}.`
      const found = Object.entries(stats()).filter(([name]) => name.startsWith(prefix))
      const zeros = { near_limit: 0, over_limit: 0, within_limit: 0 }
      return {
        ...(found.length > 0 && zeros),
        ...Object.fromEntries(found.map(([n, v]) => [n.slice(prefix.length), v])),
      }
    },
  }
}

export function rule(key: string, limit: Partial<RuleLimit>): RuleNode {
  return {
    key,
    value: '',
    limit: { name: '', requestsPerUnit: 5, unit: Unit.Minute, isUnlimited: false, replaces: [], ...limit },
    children: [],
    isShadow: false,
    isQuota: false,
    onStoreError: null,
    localShare: null,
    hasDetailedMetric: false,
    hasValueToMetric: false,
    hasShareThreshold: false,
    file: 'rules.yaml',
    line: 1,
    metadata: null,
  }
}

export function descriptor(entries: Record<string, string>): Descriptor {
  const list: Entry[] = Object.entries(entries).map(([key, value]) => ({ key, value }))
  return { entries: list, limit: null, hitsAddend: null }
}

export function override(unit: number): Descriptor {
  return { ...descriptor({ a: '1' }), limit: { requestsPerUnit: 1, unit } }
}

export function descriptorWithHits(hitsAddend: number | bigint): Descriptor {
  return { ...descriptor({ a: '1' }), hitsAddend }
}
