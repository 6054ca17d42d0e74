/** Lint warnings of given rules, and random trees of rules whose texts are often equal. */
import fc from 'fast-check'
import { load } from '../../../engine/config/load.ts'
import { toCompositeKey } from '../../../engine/config/patterns.ts'
import type { RuleNode } from '../../../engine/config/rules.ts'
import { Unit } from '../../../proto/ratelimit.ts'
import { ruleLimit, ruleNode } from '../match/rules.ts'

export const DAY = 'rate_limit: {unit: day, requests_per_unit: 3}'

export async function lintWarnings(...files: string[]): Promise<string[]> {
  const named = files.map((yaml, i) => ({ name: `${i}.yaml`, bytes: Buffer.from(yaml) }))
  const { result, lint } = await load({ from: 'files', files: named, isMerging: true })
  if (!result.ok) throw new Error(result.error)
  return lint()
}

/** The warnings for a domain `d` with one node per line; the first is line 3. */
export function lintNodes(...nodes: string[]): Promise<string[]> {
  return lintWarnings(`domain: d\ndescriptors:\n${nodes.map((node) => `  - ${node}\n`).join('')}`)
}

const text = fc.string({ unit: fc.constantFrom('a', 'b', '_', '*'), maxLength: 4 })
const leaf = fc.record({
  key: fc.oneof(
    fc.constantFrom('a', 'b', 'a_b', 'a*', '*', '*a*', 'a*b*a'),
    text.filter((key) => key !== ''),
  ),
  value: fc.oneof(fc.constantFrom('', '', 'b', '*', 'a*', 'a*b', '*a*', '*b*a'), text),
  limit: fc.option(
    fc.constantFrom(ruleLimit(), ruleLimit({ unit: Unit.Hour }), ruleLimit({ isUnlimited: true })),
  ),
  hasShareThreshold: fc.boolean(),
})
export function arbitraryNodes(depth: number): fc.Arbitrary<RuleNode[]> {
  const children = depth > 1 ? arbitraryNodes(depth - 1) : fc.constant<RuleNode[]>([])
  const node = fc.tuple(leaf, children).map(([given, below]) => {
    const hasShareThreshold = given.hasShareThreshold && toCompositeKey(ruleNode(given)).includes('*')
    return ruleNode({ ...given, hasShareThreshold, children: below })
  })
  return fc.uniqueArray(node, { maxLength: 5, selector: toCompositeKey })
}
export const entry = fc.record({
  key: fc.oneof(fc.constantFrom('a', 'b', 'a_b', 'a*'), text),
  value: fc.oneof(fc.constantFrom('', 'a', 'b', 'z', 'ab', '*'), text),
})
