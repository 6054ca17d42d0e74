/**
 * What does it cost to find the rule of a descriptor of two entries, with few and with many rules?
 *   floor  a JavaScript Map by one text, concatenated from the same strings: no levels, no wildcards, no defaults
 *   now    the trie, which may be faster: it concatenates nothing
 *   miss   entries without a rule
 * Worth changing when `now` with 100,000 rules costs more than 1.5 times what it costs with 100.
 */

import type { Match, RuleNode } from '../engine/config/rules.ts'
import { compile } from '../engine/match/compile.ts'
import { Trie } from '../engine/match/trie.ts'
import type { Entry } from '../proto/ratelimit.ts'
import { ruleNode } from './engine.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const MANY = size({ small: 10_000, full: 100_000 })
const requests = size({ small: 1_000, full: 200_000 })

for (const rulesCount of [100, MANY]) {
  const random = seeded(7)
  const entries = Array.from({ length: requests }, () => {
    return descriptor(Math.floor(random() * Math.min(rulesCount, 100)) * (rulesCount / 100)) // requests use 100 of them
  })
  const map = new Map<string, number>()
  for (let i = 0; i < rulesCount; i++) map.set(entriesText(descriptor(i)), i)
  const trie = new Trie(compile([{ name: 'shop', nodes: [parent(rulesCount)] }]))
  const domain = trie.domain('shop')
  const found: Match = { rule: null, statsKey: '', sharedValues: [] }

  const floor = () => {
    let sum = 0
    for (let i = 0; i < requests; i++) sum += map.get(entriesText(entries[i]))!
    return sum
  }
  const now = () => {
    let sum = 0
    for (let i = 0; i < requests; i++) if (trie.match(domain, entries[i], found)) sum += found.rule!.id
    return sum
  }
  const miss = () => {
    let sum = 0
    for (let i = 0; i < requests; i++) if (trie.match(domain, [entries[i][1], entries[i][0]], found)) sum++
    return sum
  }
  await measure('match', requests, {
    [`floor ${rulesCount} rules`]: floor,
    [`now   ${rulesCount} rules`]: now,
    [`miss  ${rulesCount} rules`]: miss,
  })
}

function descriptor(i: number): Entry[] {
  return [
    { key: 'service', value: 'checkout' },
    { key: 'path', value: `/api/v1/items/${i}` },
  ]
}

function entriesText(entries: Entry[]): string {
  return `shop_${entries[0].key}_${entries[0].value}_${entries[1].key}_${entries[1].value}`
}

function parent(rulesCount: number): RuleNode {
  const children = Array.from({ length: rulesCount }, (_, i) => ruleNode('path', `/api/v1/items/${i}`))
  return { ...ruleNode('service', 'checkout', children), limit: null }
}
