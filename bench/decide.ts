/**
 * What does a whole decision of two descriptors cost with the memory store, from request object to response object?
 *   floor  the two additions in the store, with keys made beforehand
 *   now    Engine.decide: match, key text, batch, addition, verdict, statistics, response
 * Worth changing when `now` is more than 2 µs above `floor`.
 */
import { MemoryStore } from '../engine/counters/memory.ts'
import { createMemoryTable } from '../engine/counters/memory-layout.ts'
import { Engine } from '../engine/decide.ts'
import { compile } from '../engine/match/compile.ts'
import type { RuleNode } from '../engine/rules.ts'
import { Stats } from '../engine/stats/stats.ts'
import { type RateLimitRequest, Unit } from '../proto/ratelimit.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const NOW_SEC = 1_790_000_000
const requestsCount = size({ small: 1_000, full: 100_000 })
const random = seeded(7)

const users = Array.from({ length: requestsCount }, () => String(Math.floor(random() * 1_000)))
const requests = users.map((user): RateLimitRequest => {
  const entries = [{ key: 'user', value: user }]
  const path = [{ key: 'path', value: '/api' }]
  return {
    domain: 'shop',
    descriptors: [
      { entries, limit: null, hitsAddend: null },
      { entries: path, limit: null, hitsAddend: null },
    ],
    hitsAddend: 0,
  }
})

const engine = new Engine({
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
engine.setRules(compile([{ name: 'shop', nodes: [node('user'), node('path')] }]))

const store = new MemoryStore(createMemoryTable(64 * 2 ** 20))
const keys = users.map((user) => `shop_user_${user}_${NOW_SEC}`)
let sum = 0
const caller = {
  answer: ({ statuses }: { statuses: unknown[] }) => {
    sum += statuses.length
  },
  fail: (error: Error) => {
    throw error
  },
}

await measure('decide', requestsCount, {
  'floor two additions': () => {
    let counted = 0
    for (let i = 0; i < requestsCount; i++) {
      counted += store.addOne(keys[i], 1, NOW_SEC + 60, NOW_SEC)
      counted += store.addOne('shop_path_/api_1790000000', 1, NOW_SEC + 60, NOW_SEC)
    }
    return counted
  },
  'now   whole decision': () => {
    for (let i = 0; i < requestsCount; i++) engine.decide(requests[i], caller)
    return sum
  },
})

function node(key: string): RuleNode {
  return {
    key,
    value: '',
    children: [],
    limit: { name: '', requestsPerUnit: 2 ** 31, unit: Unit.Minute, isUnlimited: false, replaces: [] },
    isShadow: false,
    isQuota: false,
    hasDetailedMetric: false,
    hasValueToMetric: false,
    hasShareThreshold: false,
    metadata: null,
  }
}
