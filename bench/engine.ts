/** An engine as the benchmarks of whole decisions need it (a memory store of its own, a clock that stands still); rules. */
import { MemoryStore } from '../engine/counters/memory.ts'
import { createMemoryTable } from '../engine/counters/memory-layout.ts'
import { Engine } from '../engine/decide.ts'
import type { RuleNode } from '../engine/rules.ts'
import { Stats } from '../engine/stats/stats.ts'
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
    isStopping: false,
    hasMetadata: false,
    localCache: null,
    headerNames: null,
  })
}

/** A rule that never says no. */
export function ruleNode(key: string, value = '', children: RuleNode[] = []): RuleNode {
  return {
    key,
    value,
    children,
    limit: { name: '', requestsPerUnit: 2 ** 31, unit: Unit.Minute, isUnlimited: false, replaces: [] },
    isShadow: false,
    isQuota: false,
    hasDetailedMetric: false,
    hasValueToMetric: false,
    hasShareThreshold: false,
    file: 'rules.yaml',
    line: 1,
    metadata: null,
  }
}
