/**
 * Checks that a tier of API keys has rules. A key without a matching rule has no limit, so a mistyped tier must be refused.
 */
import type { Match, RulesImage } from '../../engine/config/rules.ts'
import { Trie } from '../../engine/match/trie.ts'
import { DOMAIN } from './default-rules.ts'
import { getQuotaClass, toEntries } from './quota.ts'

const ANY_KEY = 'k_' // no key has this id, so rules for single keys do not match

/** The classes in which no rule matches keys of this tier. A rule with `unlimited` matches. */
export function classesWithoutRule(rules: RulesImage, tier: string): string[] {
  const trie = new Trie(rules)
  const domain = trie.domain(DOMAIN)
  const found: Match = { rule: null, statsKey: '', sharedValues: [] }
  const client = { ip: '', key: { id: ANY_KEY, tier } }
  return (['read', 'submit'] as const)
    .map((kind) => getQuotaClass(kind, client))
    .filter((name) => !trie.match(domain, toEntries(name, client), found))
}
