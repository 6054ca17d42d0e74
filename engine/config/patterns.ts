/** The wildcards among siblings, for linting (unreachable-rules.ts, shared-counters.ts). */
import { bytesOfText } from '../match/utf8.ts'
import { fitsAfterPrefix } from '../match/wildcard.ts'
import type { RuleNode } from './rules.ts'

export interface Pattern {
  node: RuleNode
  at: number // among the siblings
  composite: string
  bytes: Buffer
  prefixSize: number // bytes before the first star
}

const STAR = 0x2a

/** The text of a node that requests are compared with (spec 1.4 b). */
export function toCompositeKey({ key, value }: RuleNode): string {
  return value === '' ? key : `${key}_${value}`
}

/** In load order. Patterns that are not valid UTF-8 are left out: they match nothing. */
export function toPatterns(siblings: readonly RuleNode[]): Pattern[] {
  const patterns: Pattern[] = []
  siblings.forEach((node, at) => {
    const composite = toCompositeKey(node)
    if (!composite.includes('*') || !composite.isWellFormed()) return
    const bytes = bytesOfText(composite)
    patterns.push({ node, at, composite, bytes, prefixSize: bytes.indexOf(STAR) })
  })
  return patterns
}

export function fits({ bytes, prefixSize }: Pattern, text: Buffer): boolean {
  if (text.length < prefixSize || bytes[prefixSize - 1] !== text[prefixSize - 1]) return false // most fail here
  if (bytes.compare(text, 0, prefixSize, 0, prefixSize) !== 0) return false
  return fitsAfterPrefix(bytes, 0, bytes.length, prefixSize, text, 0, text.length)
}
