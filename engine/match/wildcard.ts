/**
 * Whether a text fits a pattern with stars (spec 1.6), byte by byte.
 *
 *     pattern  path_/a * /b * .js           prefix and suffix are pinned and must not overlap;
 *     text     path_/a x /b/ y .js          each middle part is taken where it first occurs, never reconsidered
 *              |-----|   ||    |-|
 *
 * The leftmost place of a middle part leaves most text to the next one, so taking it never loses a match.
 * Costs at most about WORK_PER_BYTE steps per byte of the text and of the pattern. The plain search is fast for parts that
 * anybody writes; a part like `aaaa…b` in a text like `aaaaaaaa…` would cost one length times the other, and the text comes
 * from a caller. So a search that works too much goes on with a table of the part (Knuth, Morris, Pratt), made there and
 * then: the only allocation, and no memory in the image.
 */
import { STAR } from './image.ts'

const WORK_PER_BYTE = 4 // comparisons per byte that the plain search may cost
const WORK_FREE = 256 // and before anybody counts: short texts never need the table

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
  let workLeft = WORK_FREE
  for (let at = from; at + size <= to; at++) {
    let i = 0
    while (i < size && pattern[part + i] === text[at + i]) i++
    if (i === size) return at + size
    workLeft += WORK_PER_BYTE - 1 - i
    if (workLeft < 0) return afterFirstByTable(pattern.subarray(part, partEnd), text, at + 1, to)
  }
  return -1
}

/** The same in at most two steps per byte, but with a table to be made first. */
function afterFirstByTable(part: Uint8Array, text: Uint8Array, from: number, to: number): number {
  // fallback[i]: so many bytes before i are also the part's first ones, and need not be compared again
  const fallback = new Int32Array(part.length)
  for (let i = 1, same = 0; i < part.length; i++) {
    while (same > 0 && part[i] !== part[same]) same = fallback[same - 1]
    if (part[i] === part[same]) same++
    fallback[i] = same
  }
  for (let at = from, same = 0; at < to; at++) {
    while (same > 0 && text[at] !== part[same]) same = fallback[same - 1]
    if (text[at] === part[same]) same++
    if (same === part.length) return at + 1
  }
  return -1
}
