/**
 * The known name that a mistyped one probably means: `teir` ─► `tier`.
 *
 * Distance by Levenshtein, where swapping two neighbours counts once (optimal string alignment). Bounded: at most
 * NAME_CHARS_MAX characters of a name are compared, so one call takes at most NAME_CHARS_MAX² steps per known name.
 */
export const NAME_CHARS_MAX = 32

/**
 * Null if no name is near: at most 1 change for names of up to 3 characters, 2 up to 8, 3 beyond, and fewer than the name
 * has.
 */
export function suggestName(name: string, known: readonly string[]): string | null {
  if (name.length > NAME_CHARS_MAX) return null
  const wanted = name.toLowerCase()
  let best: string | null = null
  let bestDistance = Number.POSITIVE_INFINITY
  for (const each of known) {
    if (each.length > NAME_CHARS_MAX) continue
    const distance = getDistance(wanted, each.toLowerCase())
    const allowed = each.length <= 3 ? 1 : each.length <= 8 ? 2 : 3
    if (distance <= Math.min(allowed, each.length - 1) && distance < bestDistance) {
      best = each
      bestDistance = distance
    }
  }
  return best
}

function getDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, beforeLast[j - 2] + 1)
      row.push(least)
    }
    beforeLast = last
    last = row
  }
  return last[b.length]
}
