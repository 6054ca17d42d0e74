/**
 * Formats a trie as an indented tree, for tests and debugging.
 *
 *     shop
 *       user                  5/MINUTE
 *       user_admin            unlimited
 *       path_/api/*           20/SECOND shadow share_threshold
 *         method              3/HOUR "writes" replaces "reads"
 */
import { UNIT_NAMES } from '../../proto/ratelimit.ts'
import type { Rule } from '../config/rules.ts'
import { HAS_DETAILED_METRIC, HAS_SHARE_THRESHOLD, HAS_VALUE_TO_METRIC } from './image.ts'

/** The nodes of a trie by id, 1 to nodesCount - 1, parents before children. */
export interface TrieNodes {
  readonly nodesCount: number
  getText(node: number): string
  getDepth(node: number): number
  getFlags(node: number): number
  getRule(node: number): Rule | null
}

const COLUMN = 24 // where limits start, unless the text is longer

export function draw(trie: TrieNodes): string {
  const lines: string[] = []
  for (let node = 1; node < trie.nodesCount; node++) {
    const text = '  '.repeat(trie.getDepth(node)) + trie.getText(node)
    const notes = describeRule(trie.getRule(node), trie.getFlags(node))
    lines.push(notes ? `${text.padEnd(COLUMN - 1)} ${notes}` : text)
  }
  return lines.join('\n')
}

function describeRule(rule: Rule | null, flags: number): string {
  const notes: string[] = []
  if (rule) {
    const { name, requestsPerUnit, unit } = rule.limit
    notes.push(rule.isUnlimited ? 'unlimited' : `${requestsPerUnit}/${UNIT_NAMES[unit]}`)
    if (name) notes.push(JSON.stringify(name))
    if (rule.isShadow) notes.push('shadow')
    if (rule.isQuota) notes.push('quota')
    if (rule.onStoreError) notes.push(`on_store_error ${rule.onStoreError}`)
    if (rule.localShare) notes.push(`local_share ${rule.localShare}`)
    if (rule.replaces.length > 0)
      notes.push(`replaces ${rule.replaces.map((n) => JSON.stringify(n)).join(' ')}`)
    if (rule.metadata) notes.push(`metadata ${JSON.stringify(rule.metadata)}`)
  }
  if (flags & HAS_SHARE_THRESHOLD) notes.push('share_threshold')
  if (flags & HAS_VALUE_TO_METRIC) notes.push('value_to_metric')
  if (flags & HAS_DETAILED_METRIC) notes.push('detailed_metric')
  return notes.join(' ')
}
