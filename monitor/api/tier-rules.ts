/**
 * Whether rules limit the API keys of a tier. Without a rule a key has no limit at all, which a mistyped tier must not give.
 */

import type { Match, RulesImage } from '../../engine/config/rules.ts'
import { Trie } from '../../engine/match/trie.ts'
import { DOMAIN } from './default-rules.ts'
import { getQuotaClass, toEntries } from './quota.ts'

const ANY_KEY = 'k_' // no key has this id, so rules for single keys do not match

/** The classes of requests in which keys of this tier have no limit. A rule that says `unlimited` is a rule. */
export function classesWithoutRule(rules: RulesImage, tier: string): string[] {
  const trie = new Trie(rules)
  const domain = trie.domain(DOMAIN)
  const found: Match = { rule: null, statsKey: '', sharedValues: [] }
  const client = { ip: '', key: { id: ANY_KEY, tier } }
  return (['read', 'submit'] as const)
    .map((kind) => getQuotaClass(kind, client))
    .filter((name) => !trie.match(domain, toEntries(name, client), found))
}
