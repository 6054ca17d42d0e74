/**
 * What does a decision of two descriptors cost with the memory store, when there are many rules?
 *   floor  100 rules
 *   now    100,000 rules
 * The same requests, zipf over 100,000 users, spread evenly over the rules: each selects a rule by its value,
 * and a user below it. Worth changing when `now` is more than 1.5 times `floor`.
 */
import { compile } from '../engine/match/compile.ts'
import { encodeRequest } from '../proto/codec.ts'
import type { Entry } from '../proto/ratelimit.ts'
import { benchEngine, ruleNode } from './engine.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const USERS = 100_000
const MANY = size({ small: 2_000, full: 100_000 })
const requestsCount = size({ small: 1_000, full: 200_000 })

const variants: Record<string, () => number> = {}
for (const rulesCount of [100, MANY]) {
  const random = seeded(7)
  const draw = () => Math.floor(USERS ** random()) // density 1 / rank
  const requests = Array.from({ length: requestsCount }, () => request([draw(), draw()], rulesCount))
  const engine = benchEngine(random)
  const nodes = Array.from({ length: rulesCount }, (_, i) => ({
    ...ruleNode('service', `s-${i}`, [ruleNode('user')]),
    limit: null,
  }))
  engine.setRules(compile([{ name: 'shop', nodes }]))
  let sum = 0
  const callback = {
    isCancelled: false,
    onDecision: ({ statuses }: { statuses: { currentLimit: unknown }[] }) => {
      for (const { currentLimit } of statuses) if (currentLimit) sum++
    },
    onError: (error: Error) => {
      throw error
    },
  }
  variants[`${rulesCount === 100 ? 'floor' : 'now  '} ${rulesCount.toLocaleString('en')} rules`] = () => {
    for (let i = 0; i < requestsCount; i++) engine.decideBytes(requests[i], callback)
    return sum
  }
}
await measure('rules', requestsCount, variants)

function request(users: number[], rulesCount: number): Uint8Array {
  const descriptors = users.map((user) => {
    const entries: Entry[] = [
      { key: 'service', value: `s-${user % rulesCount}` },
      { key: 'user', value: `u-${user}` },
    ]
    return { entries, limit: null, hitsAddend: null }
  })
  return encodeRequest({ domain: 'shop', descriptors, hitsAddend: 0 })
}
