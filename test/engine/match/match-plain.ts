/** Matches entries as the bytes of a request are matched, for tests. */
import { NO_RULE, NOT_PLAIN, type Trie } from '../../../engine/match/trie.ts'
import type { Entry } from '../../../proto/ratelimit.ts'

/** The path of the rule, `none` or `renamed`. */
export function matchPlain(trie: Trie, domain: string, entries: Entry[]): string {
  const texts = entries.map(({ key, value }) => [Buffer.from(key), Buffer.from(`_${value}`)])
  const padding = Buffer.from('?') // levels do not follow one another
  const starts: number[] = []
  const keyEnds: number[] = []
  const ends: number[] = []
  let at = 0
  for (const [key, value] of texts) {
    at += padding.length
    starts.push(at)
    at += key.length
    keyEnds.push(at)
    at += value.length
    ends.push(at)
  }
  const id = trie.matchPlain(trie.domain(domain), {
    buffer: Buffer.concat(texts.flatMap((parts) => [padding, ...parts])),
    levelsCount: entries.length,
    starts: Int32Array.from(starts),
    keyEnds: Int32Array.from(keyEnds),
    ends: Int32Array.from(ends),
  })
  return id === NO_RULE ? 'none' : id === NOT_PLAIN ? 'renamed' : trie.rule(id).path
}
