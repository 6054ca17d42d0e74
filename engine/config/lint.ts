/**
 * Finds probable mistakes in valid rules: rules that never match (unreachable-rules.ts), counters that two rules share or
 * that clients' values can reach (shared-counters.ts), counters that two requests of a rule share (self-collisions.ts), `replaces`, `on_store_error` and
 * `local_share` without effect. The number of comparisons is bounded.
 */

import { LINT_STEPS_MAX } from './bounds.ts'
import type { LintWarnings } from './lint-warnings.ts'
import { toCompositeKey } from './patterns.ts'
import type { RuleDomain, RuleNode, StoreErrorPolicy } from './rules.ts'
import { findSelfCollisions } from './self-collisions.ts'
import { findSharedCounters, type Shared } from './shared-counters.ts'
import type { UnreachableNode } from './unreachable-rules.ts'
import { findUnreachableNodes } from './unreachable-rules.ts'

/** `defaultPolicy`: STORE_ERROR_POLICY; null = unknown. */
export function lint(
  domains: readonly RuleDomain[],
  warnings: LintWarnings,
  defaultPolicy: StoreErrorPolicy | null = null,
): void {
  const steps = { left: LINT_STEPS_MAX }
  for (const { name, nodes } of domains) {
    lintUnreachable(nodes, name, { warnings, steps })
    lintReplaces(name, nodes, warnings)
    lintStoreErrors(nodes, warnings, defaultPolicy)
  }
  lintCounters(domains, steps, warnings)
  for (const { rule, path, requests } of findSelfCollisions(domains, steps)) {
    const [one, other] = requests.map(entriesText)
    warnings.add(rule, `'${path}' requested with ${one} and with ${other}: both requests share a counter`)
  }
  if (steps.left <= 0) warnings.setPartial()
}

interface LintRun {
  warnings: LintWarnings
  steps: { left: number }
}

function lintUnreachable(siblings: readonly RuleNode[], path: string, run: LintRun): void {
  const unreachable = new Set<RuleNode>()
  for (const closed of findUnreachableNodes(siblings, run.steps)) {
    if (!closed.isExactOpen && !closed.isDefaultOpen) unreachable.add(closed.node)
    run.warnings.add(closed.node, unreachableText(`${path}.${closed.composite}`, closed))
  }
  for (const node of siblings) {
    if (unreachable.has(node) || node.children.length === 0) continue
    lintUnreachable(node.children, `${path}.${toCompositeKey(node)}`, run)
  }
}

function unreachableText(
  path: string,
  { composite, by, isExactOpen, isDefaultOpen }: UnreachableNode,
): string {
  if (by === '') return `'${path}' can never match: it is not valid UTF-8, and requests are`
  const together = `a request whose key and value form '${composite}'`
  const alone = `one whose key is '${composite}'`
  const left = [isExactOpen && together, isDefaultOpen && alone].filter(Boolean).join(' or ')
  return `'${path}' ${left ? `matches only ${left}` : 'can never match'}: '${by}' matches all others first`
}

/** One warning per rule from which other counters can be reached: below an open value, all rules are. */
function lintCounters(domains: readonly RuleDomain[], steps: LintRun['steps'], warnings: LintWarnings): void {
  const reached = new Map<RuleNode, { first: Shared; count: number }>() // by the rule that reaches
  for (const shared of findSharedCounters(domains, steps)) {
    const { rule, path, other, otherPath, entries, when, isOpen } = shared
    if (isOpen) {
      const known = reached.get(other)
      if (known) known.count++
      else reached.set(other, { first: shared, count: 1 })
    } else {
      const text = `'${path}' and '${otherPath}' (${describePlace(other)}) requested with ${entriesText(entries)} share a counter ${when}`
      warnings.add(rule, text)
    }
  }
  for (const [other, { first, count }] of reached) warnings.add(other, reachedText(first, count))
}

function reachedText({ rule, path, ruleEntries, otherPath, entries, when }: Shared, count: number): string {
  const reaching = `'${otherPath}' requested with ${entriesText(entries)}`
  const shares = `'${path}' (${describePlace(rule)}) requested with ${entriesText(ruleEntries)} share a counter ${when}`
  const more = count > 1 ? `; it reaches ${count - 1} more in the same way` : ''
  return `a value chosen by clients can reach another rule's counter: ${reaching} and ${shares}${more}`
}

function entriesText(entries: Shared['entries']): string {
  return entries.map(({ key, value }) => `${key}=${value}`).join(', ')
}

function describePlace({ file, line }: RuleNode): string {
  return line > 0 ? `${file}: line ${line}` : file
}

/** Names are searched in the whole domain, because one request may match any of its rules (spec 2.6). */
function lintReplaces(domain: string, nodes: readonly RuleNode[], warnings: LintWarnings): void {
  const rules = [...withLimit(nodes)]
  const names = new Set(rules.filter(({ limit }) => !limit!.isUnlimited).map(({ limit }) => limit!.name))
  const unlimitedNames = new Set(rules.map(({ limit }) => limit!.name))
  for (const rule of rules) {
    for (const name of rule.limit!.replaces) {
      if (names.has(name)) continue
      const reason = unlimitedNames.has(name)
        ? 'only unlimited rules have that name, and those are never replaced'
        : `no rule of domain '${domain}' has that name`
      warnings.add(rule, `replaces '${name}', but ${reason}`)
    }
  }
}

function lintStoreErrors(
  nodes: readonly RuleNode[],
  warnings: LintWarnings,
  defaultPolicy: StoreErrorPolicy | null,
): void {
  for (const node of nodes) {
    const { limit, onStoreError, localShare } = node
    const words = [onStoreError && 'on_store_error', localShare && 'local_share']
      .filter(Boolean)
      .join(' and ')
    if (words !== '' && (limit === null || limit.isUnlimited))
      warnings.add(node, `${words} on a descriptor without a limit: nothing is counted there`)
    else if (localShare && onStoreError && onStoreError !== 'local')
      warnings.add(node, `local_share has no effect with on_store_error: ${onStoreError}; it needs local`)
    else if (localShare && !onStoreError && defaultPolicy !== 'local') {
      const policy =
        defaultPolicy === null
          ? 'unless STORE_ERROR_POLICY is local'
          : `while STORE_ERROR_POLICY is ${defaultPolicy}`
      warnings.add(
        node,
        `local_share without on_store_error has no effect ${policy}; write on_store_error: local`,
      )
    }
    lintStoreErrors(node.children, warnings, defaultPolicy)
  }
}

function* withLimit(nodes: readonly RuleNode[]): Generator<RuleNode> {
  for (const node of nodes) {
    if (node.limit) yield node
    yield* withLimit(node.children)
  }
}
