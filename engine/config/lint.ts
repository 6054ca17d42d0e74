/**
 * Looks over validated rules for what can hardly be meant: nodes that are never met (unreachable-rules.ts), counters that two rules
 * share or that callers' values can reach (shared-counters.ts), `replaces` that replace nothing. Costs comparisons, so their number is bounded.
 */

import { LINT_STEPS_MAX } from './bounds.ts'
import type { LintWarnings } from './lint-warnings.ts'
import { toCompositeKey } from './patterns.ts'
import type { RuleDomain, RuleNode } from './rules.ts'
import { findSharedCounters, type Shared } from './shared-counters.ts'
import type { UnreachableNode } from './unreachable-rules.ts'
import { findUnreachableNodes } from './unreachable-rules.ts'

export function lint(domains: readonly RuleDomain[], remarks: LintWarnings): void {
  const steps = { left: LINT_STEPS_MAX }
  for (const { name, nodes } of domains) {
    lintUnreachable(nodes, name, { remarks, steps })
    lintReplaces(name, nodes, remarks)
  }
  lintCounters(domains, steps, remarks)
  if (steps.left <= 0) remarks.setPartial()
}

interface LintRun {
  remarks: LintWarnings
  steps: { left: number }
}

function lintUnreachable(siblings: readonly RuleNode[], path: string, run: LintRun): void {
  const never = new Set<RuleNode>()
  for (const closed of findUnreachableNodes(siblings, run.steps)) {
    if (!closed.isExactOpen && !closed.isDefaultOpen) never.add(closed.node)
    run.remarks.add(closed.node, reachText(`${path}.${closed.composite}`, closed))
  }
  for (const node of siblings) {
    if (never.has(node) || node.children.length === 0) continue
    lintUnreachable(node.children, `${path}.${toCompositeKey(node)}`, run)
  }
}

function reachText(path: string, { composite, by, isExactOpen, isDefaultOpen }: UnreachableNode): string {
  if (by === '') return `'${path}' can never match: it is no UTF-8, and requests are`
  const together = `a request whose key and value together read '${composite}'`
  const alone = `one whose key reads '${composite}'`
  const left = [isExactOpen && together, isDefaultOpen && alone].filter(Boolean).join(' or ')
  return `'${path}' ${left ? `matches nothing but ${left}` : 'can never match'}: '${by}' takes all others first`
}

/** A rule whose callers can reach many counters is one remark: below an open value, all rules are reached. */
function lintCounters(domains: readonly RuleDomain[], steps: LintRun['steps'], remarks: LintWarnings): void {
  const reached = new Map<RuleNode, { first: Shared; count: number }>() // by the rule that reaches
  for (const shared of findSharedCounters(domains, steps)) {
    const { rule, path, other, otherPath, entries, when, isOpen } = shared
    if (isOpen) {
      const before = reached.get(other)
      if (before) before.count++
      else reached.set(other, { first: shared, count: 1 })
    } else {
      const text = `'${path}' and '${otherPath}' (${describePlace(other)}) asked with ${entriesText(entries)} share a counter ${when}`
      remarks.add(rule, text)
    }
  }
  for (const [other, { first, count }] of reached) remarks.add(other, reachedText(first, count))
}

function reachedText({ rule, path, ruleEntries, otherPath, entries, when }: Shared, count: number): string {
  const asked = `'${otherPath}' asked with ${entriesText(entries)}`
  const shares = `'${path}' (${describePlace(rule)}) asked with ${entriesText(ruleEntries)} share a counter ${when}`
  const more = count > 1 ? `; it reaches ${count - 1} more in this way` : ''
  return `a value chosen by callers can reach another rule's counter: ${asked} and ${shares}${more}`
}

function entriesText(entries: Shared['entries']): string {
  return entries.map(({ key, value }) => `${key}=${value}`).join(', ')
}

function describePlace({ file, line }: RuleNode): string {
  return line > 0 ? `${file}: line ${line}` : file
}

/** Names are looked for in the whole domain, because one request may match any of its rules (spec 2.6). */
function lintReplaces(domain: string, nodes: readonly RuleNode[], remarks: LintWarnings): void {
  const rules = [...withLimit(nodes)]
  const names = new Set(rules.filter(({ limit }) => !limit!.isUnlimited).map(({ limit }) => limit!.name))
  const unlimitedNames = new Set(rules.map(({ limit }) => limit!.name))
  for (const rule of rules) {
    for (const name of rule.limit!.replaces) {
      if (names.has(name)) continue
      const why = unlimitedNames.has(name)
        ? 'only unlimited rules have that name, and those are never replaced'
        : `no rule of domain '${domain}' has that name`
      remarks.add(rule, `replaces '${name}', but ${why}`)
    }
  }
}

function* withLimit(nodes: readonly RuleNode[]): Generator<RuleNode> {
  for (const node of nodes) {
    if (node.limit) yield node
    yield* withLimit(node.children)
  }
}
