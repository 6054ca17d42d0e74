/**
 * Finds the nodes of one level that no request can match in the intended way.
 *
 *     siblings, in load order      a request matches a node         reachable?
 *       user_*                     exact     its text is `key_value`   if there is an underscore to split it at
 *       user      ◄── never        wildcard  as a pattern              unless earlier patterns match all that it matches
 *       path_/a*                   default   its text is the key       unless a pattern matches that key with any value
 *       path_/ab* ◄── only the text `path_/ab*` itself, by the exact look-up
 *
 * The result is exact (spec 2.2). Let `◊` be a character that occurs in no sibling.
 *   - A pattern W that matches `k_◊` matches the ◊ by a star, and a star matches anything: so W matches key k with every
 *     value, and the default look-up for k never happens. If no pattern matches `k_◊`, that request reaches it.
 *   - A pattern P with ◊ for each star is a text that P matches. If an earlier W matches that text, W matches all that P
 *     matches, by the same argument. If none does, that request reaches P. Only texts with an underscore can be requested; if
 *     P itself has none, one of its stars must match it, so each star in turn is tried as `◊_◊`.
 *   - Exact texts precede all patterns; they are finitely many, and none of them contains a ◊.
 * So one comparison per pair of siblings decides. As a byte, ◊ is 0xff, which does not occur in UTF-8.
 */
import { bytesOfText } from '../match/utf8.ts'
import { fits, type Pattern, toCompositeKey, toPatterns } from './patterns.ts'
import type { RuleNode } from './rules.ts'

/** A node that cannot be matched as intended, and the ways that remain. */
export interface UnreachableNode {
  node: RuleNode
  composite: string
  by: string // the composite that matches its requests; '' = the node is not valid UTF-8
  isExactOpen: boolean // a request whose key and value form the composite
  isDefaultOpen: boolean // a request whose key is the composite
}

const ANY = Buffer.of(0xff)
const ANY_SPLIT = Buffer.of(0xff, 0x5f, 0xff)

/** `steps.left` counts down per comparison; at 0 the rest is skipped. */
export function findUnreachableNodes(
  siblings: readonly RuleNode[],
  steps: { left: number },
): UnreachableNode[] {
  const patterns = toPatterns(siblings)
  const unreachable: UnreachableNode[] = []
  for (let at = 0; at < siblings.length && steps.left > 0; at++) {
    const node = siblings[at]
    const composite = toCompositeKey(node)
    const isExactOpen = composite.includes('_')
    if (!composite.isWellFormed()) {
      unreachable.push({ node, composite, by: '', isExactOpen: false, isDefaultOpen: false })
      continue
    }
    const findCovering = (text: Buffer, before: number) => {
      for (const pattern of patterns) {
        if (pattern.at >= before) break
        steps.left--
        if (fits(pattern, text)) return pattern
      }
      return null
    }
    const defaultCovering = findCovering(Buffer.concat([bytesOfText(`${composite}_`), ANY]), siblings.length)
    const isDefaultOpen = defaultCovering === null
    let by: Pattern | null = null
    if (composite.includes('*')) {
      for (const text of sampleNodes(composite)) {
        by = findCovering(text, at)
        if (by === null) break // this request reaches it
      }
    } else if (node.value === '') by = defaultCovering
    if (by) unreachable.push({ node, composite, by: by.composite, isExactOpen, isDefaultOpen })
  }
  return unreachable
}

/** Texts with an underscore that another pattern matches only if it matches everything that this one matches. */
function* sampleNodes(composite: string): Generator<Buffer> {
  const parts = composite.split('*').map(bytesOfText)
  if (composite.includes('_')) {
    yield joined(parts, -1)
    return
  }
  for (let star = 0; star < parts.length - 1; star++) yield joined(parts, star)
}

function joined(parts: Buffer[], splitStar: number): Buffer {
  const pieces = parts.flatMap((part, i) =>
    i === 0 ? [part] : [i - 1 === splitStar ? ANY_SPLIT : ANY, part],
  )
  return Buffer.concat(pieces)
}
