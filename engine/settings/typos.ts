/**
 * Finds the setting of which a variable is probably a misspelling.
 *
 *     REDIS_ULR ──► REDIS_URL      two letters swapped
 *     LOG_LEVL  ──► LOG_LEVEL      one left out
 *     REDIS_PORT ─► nothing        three letters away; Kubernetes sets it for a Service named redis
 *
 * An environment has many unrelated variables, and false warnings at every start are worse than a missed typo. Short names
 * and names without `_` are therefore skipped (HOME is two letters from HOST).
 */

const LETTERS_MAX = 2 // wrong, missing, added or swapped
const LENGTH_MIN = 8

/** The known name nearest to `name`, or undefined when none is within two letters. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  if (name.length < LENGTH_MIN || !name.includes('_')) return undefined
  let best: string | undefined
  let bestLetters = LETTERS_MAX + 1
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= bestLetters) continue
    const letters = distance(name, candidate, bestLetters)
    if (letters >= bestLetters) continue
    best = candidate
    bestLetters = letters
  }
  return best
}

/**
 * Damerau-Levenshtein distance in which no letter is touched twice; `enough` when it is that or more.
 * Takes up to 60 µs per unknown variable, at the start only.
 */
function distance(a: string, b: string, enough: number): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      let letters = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (isSame ? 0 : 1))
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwap) letters = Math.min(letters, beforeLast[j - 2] + 1)
      row.push(letters)
    }
    // A swap reaches back two rows, so both must be out of reach.
    if (Math.min(...row) >= enough && Math.min(...last) >= enough) return enough
    beforeLast = last
    last = row
  }
  return Math.min(last[b.length], enough)
}
