/**
 * Creates rules for tests: `limited({ key: 'user', value: '7' })` is 1 per second for user_7.
 */
import type { RuleDomain, RuleLimit, RuleNode } from '../../../engine/config/rules.ts'
import { type Entry, Unit } from '../../../proto/ratelimit.ts'

export function ruleLimit(given: Partial<RuleLimit> = {}): RuleLimit {
  return { name: '', requestsPerUnit: 1, unit: Unit.Second, isUnlimited: false, replaces: [], ...given }
}

/** A node without limit, unless one is given. */
export function ruleNode(given: Partial<RuleNode> & { key: string }): RuleNode {
  return {
    value: '',
    limit: null,
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
    ...given,
  }
}

/** A node with a limit. */
export function limited(given: Partial<RuleNode> & { key: string }): RuleNode {
  return ruleNode({ limit: ruleLimit(), ...given })
}

export function ruleDomain(name: string, ...nodes: RuleNode[]): RuleDomain {
  return { name, nodes }
}

/** `a=1 b=2` as entries; `a=` has an empty value. */
export function parseEntries(text: string): Entry[] {
  return text.split(' ').map((pair) => {
    const at = pair.indexOf('=')
    return { key: pair.slice(0, at), value: pair.slice(at + 1) }
  })
}
