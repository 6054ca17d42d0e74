/** An engine for the benchmarks of whole decisions, with a memory store of its own and a fixed clock; rules. */

import type { RuleNode } from '../engine/config/rules.ts'
import { Engine } from '../engine/decision/engine.ts'
import { Stats } from '../engine/stats/stats.ts'
import { MemoryStore } from '../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../engine/stores/memory/table-layout.ts'
import { Unit } from '../proto/ratelimit.ts'

export const NOW_SEC = 1_790_000_000

export function benchEngine(random: () => number): Engine {
  return new Engine({
    store: new MemoryStore(createMemoryTable(64 * 2 ** 20)),
    stats: new Stats(),
    decisionsStat: 'decisions',
    nowSec: () => NOW_SEC,
    random,
    nearLimitRatio: 0.8,
    keyPrefix: '',
    jitterMaxSec: 300,
    isShadow: false,
    isQuota: false,
    storeErrorPolicy: 'error',
    localStore: null,
    hasDegradedHeader: false,
    decisionTimeoutMs: 0,
    stopIncrementWhenOverLimit: false,
    hasMetadata: false,
    localCache: null,
    headerNames: null,
  })
}

/** A rule that is never exceeded. */
export function ruleNode(key: string, value = '', children: RuleNode[] = []): RuleNode {
  return {
    key,
    value,
    children,
    limit: { name: '', requestsPerUnit: 2 ** 31, unit: Unit.Minute, isUnlimited: false, replaces: [] },
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
