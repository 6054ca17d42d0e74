/**
 * What does a whole decision of two descriptors cost with the memory store, from the request to the response object?
 *   floor  the two additions in the store, with keys made beforehand
 *   read   from a request object, as from JSON: match, key text, batch, addition, evaluation, statistics
 *   bytes  from protobuf bytes: known descriptors are found by their bytes
 *   zipf   the same with more users than the cache holds, Zipf distributed
 *   many   the same with users equally distributed: the cache rarely helps
 * Worth changing when `zipf` is more than 1 µs above `floor`.
 */

import { compile } from '../engine/match/compile.ts'
import { MemoryStore } from '../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../engine/stores/memory/table-layout.ts'
import { encodeRequest } from '../proto/codec.ts'
import type { RateLimitRequest } from '../proto/ratelimit.ts'
import { benchEngine, NOW_SEC, ruleNode } from './engine.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const USERS = 100_000
const requestsCount = size({ small: 1_000, full: 100_000 })
const random = seeded(7)

const users = names(() => random() * 1_000)
const requests = users.map(request)
const bytes = requests.map(encodeRequest)
const many = names(() => random() * USERS).map((user) => encodeRequest(request(user)))
const zipf = names(() => USERS ** random()).map((user) => encodeRequest(request(user))) // density 1 / rank

const engine = benchEngine(random)
engine.setRules(compile([{ name: 'shop', nodes: [ruleNode('user'), ruleNode('path')] }]))

const store = new MemoryStore(createMemoryTable(64 * 2 ** 20))
const keys = users.map((user) => `shop_user_${user}_${NOW_SEC}`)
let sum = 0
const callback = {
  isCancelled: false,
  onDecision: ({ statuses }: { statuses: unknown[] }) => {
    sum += statuses.length
  },
  onError: (error: Error) => {
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
  'read  1,000 users': () => {
    for (let i = 0; i < requestsCount; i++) engine.decide(requests[i], callback)
    return sum
  },
  'bytes 1,000 users': () => {
    for (let i = 0; i < requestsCount; i++) engine.decideBytes(bytes[i], callback)
    return sum
  },
  'zipf  100,000 users, zipf': () => {
    for (let i = 0; i < requestsCount; i++) engine.decideBytes(zipf[i], callback)
    return sum
  },
  'many  100,000 users': () => {
    for (let i = 0; i < requestsCount; i++) engine.decideBytes(many[i], callback)
    return sum
  },
})

function names(draw: () => number): string[] {
  return Array.from({ length: requestsCount }, () => String(Math.floor(draw())))
}

function request(user: string): RateLimitRequest {
  return {
    domain: 'shop',
    descriptors: [
      { entries: [{ key: 'user', value: user }], limit: null, hitsAddend: null },
      { entries: [{ key: 'path', value: '/api' }], limit: null, hitsAddend: null },
    ],
    hitsAddend: 0,
  }
}
