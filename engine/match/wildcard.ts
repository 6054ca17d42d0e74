/**
 * Whether a text fits a pattern with stars (spec 1.6), byte by byte.
 *
 *     pattern  path_/a * /b * .js           prefix and suffix are pinned and must not overlap;
 *     text     path_/a x /b/ y .js          each middle part matches at its first occurrence
 *              |-----|   ||    |-|
 *
 * The leftmost occurrence of a middle part leaves the most text to the next one, so taking it never loses a match.
 * Costs at most about WORK_PER_BYTE steps per byte of the text and of the pattern. Plain search is fast for ordinary parts,
 * but a part like `aaaa…b` in a text like `aaaaaaaa…`, which clients can send, would cost the product of both lengths. A
 * search that exceeds its budget continues with a Knuth-Morris-Pratt table of the part: the only allocation.
 */
import { STAR } from './image.ts'

const WORK_PER_BYTE = 4 // comparisons per byte allowed in plain search
const WORK_FREE = 256 // allowed in addition: short texts never need the table

// hot: no allocation below

/**
 * `pattern` from `p` to `pEnd` holds at least one star. The caller has compared the `prefixSize` bytes before the first
 * one inline, because nearly all patterns fail there.
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
