/**
 * Section 2 of the specification, implemented literally with strings and recursion. The trie must agree with it.
 */
import type { RuleDomain, RuleNode } from '../../../engine/config/rules.ts'
import type { Entry } from '../../../proto/ratelimit.ts'

export interface Found {
  path: string
  statsKey: string
  sharedValues: string[]
}

interface Step {
  node: RuleNode
  how: 'exact' | 'wildcard' | 'default'
  entry: Entry
}

export function naiveMatch(domains: RuleDomain[], domain: string, entries: Entry[]): Found | null {
  const found = domains.find(({ name }) => name === domain)
  if (!found) return null
  const steps = walk(found.nodes, entries)
  if (!steps) return null
  return {
    path: [domain, ...steps.map(({ node }) => toCompositeKey(node))].join('.'),
    statsKey: formatStatsKey(domain, steps),
    sharedValues: steps.map(sharePattern),
  }
}

/** 2.2: the steps that lead to a limit at the last entry, or null. */
function walk(nodes: RuleNode[], [entry, ...rest]: Entry[]): Step[] | null {
  if (!entry) return null
  const step = find(nodes, entry)
  if (!step) return null
  if (rest.length === 0) return step.node.limit ? [step] : null
  const below = walk(step.node.children, rest)
  return below && [step, ...below]
}

function find(nodes: RuleNode[], entry: Entry): Step | null {
  const text = `${entry.key}_${entry.value}`
  const exact = nodes.find((node) => toCompositeKey(node) === text)
  if (exact) return { node: exact, how: 'exact', entry }
  const wildcard = nodes.find(
    (node) => toCompositeKey(node).includes('*') && fits(toCompositeKey(node), text),
  )
  if (wildcard) return { node: wildcard, how: 'wildcard', entry }
  const fallback = nodes.find((node) => toCompositeKey(node) === entry.key)
  return fallback ? { node: fallback, how: 'default', entry } : null
}

export function toCompositeKey({ key, value }: { key: string; value: string }): string {
  return value === '' ? key : `${key}_${value}`
}

/** 1.6 */
export function fits(pattern: string, text: string): boolean {
  const parts = pattern.split('*')
  const prefix = parts[0]
  const suffix = parts[parts.length - 1]
  if (!text.startsWith(prefix) || !text.endsWith(suffix)) return false
  if (text.length < parts.join('').length) return false
  let middle = text.slice(prefix.length, text.length - suffix.length)
  for (const part of parts.slice(1, -1)) {
    const at = middle.indexOf(part)
    if (at < 0) return false
    middle = middle.slice(at + part.length)
  }
  return true
}

/** S_i of 2.3; empty = none. */
function sharePattern({ node, how, entry }: Step): string {
  return how === 'wildcard' && node.hasShareThreshold ? withoutKey(toCompositeKey(node), entry.key) : ''
}

function withoutKey(pattern: string, key: string): string {
  return pattern.startsWith(`${key}_`) ? pattern.slice(key.length + 1) : pattern
}

function formatStatsKey(domain: string, steps: Step[]): string {
  if (!steps[steps.length - 1].node.hasDetailedMetric) {
    return domain + steps.map((step) => `.${step.entry.key}${toSuffix(metricValue(step))}`).join('')
  }
  if (!steps.some(sharePattern))
    return domain + steps.map(({ entry }) => `.${entry.key}_${entry.value}`).join('')
  return (
    domain +
    steps.map((step) => `.${step.entry.key}${toSuffix(sharePattern(step) || step.entry.value)}`).join('')
  )
}

function metricValue(step: Step): string {
  const { node, how, entry } = step
  if (how === 'exact') return entry.value
  if (sharePattern(step)) return sharePattern(step)
  if (node.hasValueToMetric) return entry.value
  return how === 'wildcard' ? withoutKey(toCompositeKey(node), entry.key) : ''
}

function toSuffix(value: string): string {
  return value === '' ? '' : `_${value}`
}
