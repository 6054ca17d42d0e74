/**
 * Which nodes of one level no request can meet in the way they were written for.
 *
 *     siblings, in load order      a request finds a node           open?
 *       user_*                     exact     its text is `key_value`   when there is an underscore to split it at
 *       user      ◄── never        wildcard  as a pattern              unless patterns before it take all that it takes
 *       path_/a*                   default   its text is the key       unless some pattern takes that key with any value
 *       path_/ab* ◄── only as the very text `path_/ab*`, by the exact look-up
 *
 * Why no alarm is false, and none is missing (spec 2.2). Let `◊` be a letter that stands in no sibling.
 *   - A pattern W that takes `k_◊` took the ◊ by a star, and a star takes anything: so W takes key k with every value,
 *     and the default look-up for k never comes. If no pattern takes `k_◊`, then that request comes through.
 *   - A pattern P with ◊ for each star is a text that P takes. If W before it takes that text, W takes all that P takes, by
 *     the same argument. If none does, that request reaches P. Only texts with an underscore can be asked; if P's own
 *     letters hold none, one of its stars must take it, so each star in turn is tried as `◊_◊`.
 *   - Exact texts come first, whatever patterns there are; they are finitely many, and none of them holds a ◊.
 * So one comparison per pair of siblings decides. In bytes ◊ is 0xff, which is in no UTF-8.
 */
import { bytesOfText } from '../match/utf8.ts'
import { fits, type Pattern, toCompositeKey, toPatterns } from './patterns.ts'
import type { RuleNode } from './rules.ts'

/** A node that cannot be met as it is meant, and what is left. */
export interface UnreachableNode {
  node: RuleNode
  composite: string
  by: string // the composite that takes its requests; '' when no request can spell this node
  isExactOpen: boolean // a request whose key and value together read the composite
  isDefaultOpen: boolean // a request whose key reads the composite
}

const ANY = Buffer.of(0xff)
const ANY_SPLIT = Buffer.of(0xff, 0x5f, 0xff)

/** The nodes of a level that are closed. `steps.left` counts down per comparison; at 0 the rest is not looked at. */
export function findUnreachableNodes(
  siblings: readonly RuleNode[],
  steps: { left: number },
): UnreachableNode[] {
  const patterns = toPatterns(siblings)
  const closed: UnreachableNode[] = []
  for (let at = 0; at < siblings.length && steps.left > 0; at++) {
    const node = siblings[at]
    const composite = toCompositeKey(node)
    const isExactOpen = composite.includes('_')
    if (!composite.isWellFormed()) {
      closed.push({ node, composite, by: '', isExactOpen: false, isDefaultOpen: false })
      continue
    }
    const taker = (text: Buffer, before: number) => {
      for (const pattern of patterns) {
        if (pattern.at >= before) break
        steps.left--
        if (fits(pattern, text)) return pattern
      }
      return null
    }
    const defaultTaker = taker(Buffer.concat([bytesOfText(`${composite}_`), ANY]), siblings.length)
    const isDefaultOpen = defaultTaker === null
    let by: Pattern | null = null
    if (composite.includes('*')) {
      for (const text of sampleNodes(composite)) {
        by = taker(text, at)
        if (by === null) break // this request reaches it
      }
    } else if (node.value === '') by = defaultTaker
    if (by) closed.push({ node, composite, by: by.composite, isExactOpen, isDefaultOpen })
  }
  return closed
}

/** Texts that a pattern takes only if it takes all that it takes at all; each with an underscore. */
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
