/**
 * Looks over validated rules for what can hardly be meant: nodes that are never met (reach.ts), counters that two rules
 * share (sharing.ts), `replaces` that replace nothing. Costs comparisons, so their number is bounded.
 */
import type { RuleDomain, RuleNode } from '../rules.ts'
import { REMARK_STEPS_MAX } from './bounds.ts'
import { compositeOf } from './patterns.ts'
import type { Closed } from './reach.ts'
import { closedNodes } from './reach.ts'
import type { Remarks } from './remarks.ts'
import { sharedCounters } from './sharing.ts'
import type { Place } from './validate.ts'

export function lint(domains: readonly RuleDomain[], places: Map<RuleNode, Place>, remarks: Remarks): void {
  const steps = { left: REMARK_STEPS_MAX }
  for (const { name, nodes } of domains) {
    lintReach(nodes, name, { places, remarks, steps })
    lintReplaces(name, nodes, places, remarks)
  }
  for (const { rule, path, other, otherPath, entries, when } of sharedCounters(domains, steps)) {
    const { file, line } = places.get(other)!
    const asked = entries.map(({ key, value }) => `${key}=${value}`).join(', ')
    const text = `'${path}' and '${otherPath}' (${file}: line ${line}) asked with ${asked} share a counter ${when}`
    remarks.add(places.get(rule)!, text)
  }
  if (steps.left <= 0) remarks.setPartial()
}

interface Run {
  places: Map<RuleNode, Place>
  remarks: Remarks
  steps: { left: number }
}

function lintReach(siblings: readonly RuleNode[], path: string, run: Run): void {
  const never = new Set<RuleNode>()
  for (const closed of closedNodes(siblings, run.steps)) {
    if (!closed.isExactOpen && !closed.isDefaultOpen) never.add(closed.node)
    run.remarks.add(run.places.get(closed.node)!, reachText(`${path}.${closed.composite}`, closed))
  }
  for (const node of siblings) {
    if (never.has(node) || node.children.length === 0) continue
    lintReach(node.children, `${path}.${compositeOf(node)}`, run)
  }
}

function reachText(path: string, { composite, by, isExactOpen, isDefaultOpen }: Closed): string {
  if (by === '') return `'${path}' can never match: it is no UTF-8, and requests are`
  const together = `a request whose key and value together read '${composite}'`
  const alone = `one whose key reads '${composite}'`
  const left = [isExactOpen && together, isDefaultOpen && alone].filter(Boolean).join(' or ')
  return `'${path}' ${left ? `matches nothing but ${left}` : 'can never match'}: '${by}' takes all others first`
}

/** Names are looked for in the whole domain, because one request may match any of its rules (spec 2.6). */
function lintReplaces(
  domain: string,
  nodes: readonly RuleNode[],
  places: Map<RuleNode, Place>,
  remarks: Remarks,
): void {
  const rules = [...withLimit(nodes)]
  const names = new Set(rules.filter(({ limit }) => !limit!.isUnlimited).map(({ limit }) => limit!.name))
  const unlimitedNames = new Set(rules.map(({ limit }) => limit!.name))
  for (const rule of rules) {
    for (const name of rule.limit!.replaces) {
      if (names.has(name)) continue
      const why = unlimitedNames.has(name)
        ? 'only unlimited rules have that name, and those are never replaced'
        : `no rule of domain '${domain}' has that name`
      remarks.add(places.get(rule)!, `replaces '${name}', but ${why}`)
    }
  }
}

function* withLimit(nodes: readonly RuleNode[]): Generator<RuleNode> {
  for (const node of nodes) {
    if (node.limit) yield node
    yield* withLimit(node.children)
  }
}
