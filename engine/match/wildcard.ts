/**
 * Whether a text fits a pattern with stars (spec 1.6), byte by byte.
 *
 *     pattern  path_/a * /b * .js           prefix and suffix are pinned and must not overlap;
 *     text     path_/a x /b/ y .js          each middle part is taken where it first occurs, never reconsidered
 *              |-----|   ||    |-|
 *
 * The leftmost place of a middle part leaves most text to the next one, so taking it never loses a match.
 * Costs at worst the text's bytes times the longest middle part's, and that only for parts like `aaaa` in texts like
 * `aaaaaaaa`. Patterns come from operators and are short; a table per part for a sure bound was not worth its memory.
 */
import { STAR } from './image.ts'

// hot: nothing is allocated below

/**
 * `pattern` from `p` to `pEnd` holds at least one star, and its `prefixSize` bytes before the first one have been
 * compared already: callers do it inline, because that is where nearly every pattern fails.
 */
export function fitsAfterPrefix(
  pattern: Uint8Array,
  p: number,
  pEnd: number,
  prefixSize: number,
  text: Uint8Array,
  t: number,
  tEnd: number,
): boolean {
  let part = p + prefixSize + 1 // just after the first star
  let from = t + prefixSize
  let to = tEnd
  let end = pEnd
  while (pattern[end - 1] !== STAR) {
    if (to === from || pattern[end - 1] !== text[to - 1]) return false
    end--
    to--
  }
  // Only middle parts are left, each closed by a star that stands before `end`.
  while (part < end) {
    let partEnd = part
    while (pattern[partEnd] !== STAR) partEnd++
    from = afterFirst(pattern, part, partEnd, text, from, to)
    if (from < 0) return false
    part = partEnd + 1
  }
  return true
}

/** The place just after the first occurrence of a part, or -1. An empty part, between two stars, is everywhere. */
function afterFirst(
  pattern: Uint8Array,
  part: number,
  partEnd: number,
  text: Uint8Array,
  from: number,
  to: number,
): number {
  const size = partEnd - part
  for (let at = from; at + size <= to; at++) {
    let i = 0
    while (i < size && pattern[part + i] === text[at + i]) i++
    if (i === size) return at + size
  }
  return -1
}
