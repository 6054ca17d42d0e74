/**
 * Patterns of operators in the syntax of Go's RE2, run by re2js in linear time: a pattern meets names that clients can
 * influence, and must not block the thread however it is written.
 *
 * re2js accepts and refuses what Go's regexp package does, with the same error texts; only a second group of one name is
 * refused here and not in Go. The bounds below are narrower than Go's, because time grows with the length of the text
 * times the size of the compiled pattern.
 */
import { RE2JS, RE2JSSyntaxException } from 're2js'

const PATTERN_CHARS_MAX = 10_000
const COUNTED_PATTERN_CHARS_MAX = 500 // with {n,m}, of which re2js makes up to 1,000 copies: the worst compiles in 2 s
const INSTRUCTIONS_MAX = 2_000 // of the compiled pattern; the worst takes 0.7 s per 1,100 characters, ordinary ones 10 µs
const GROUPS_MAX = 50 // copied with every state of the search
const TEXT_CHARS_MAX = 4_096 // names of statistics end at about 1,100

/** groups[0] is the whole match; a group that took no part is the empty text. */
export interface PatternMatch {
  groups: readonly string[]
  names: ReadonlyMap<string, number>
}

export class Pattern {
  private readonly compiled: RE2JS
  private readonly names: ReadonlyMap<string, number>

  /** Throws an Error whose message continues "the pattern cannot be used: ". */
  constructor(text: string) {
    if (text.length > PATTERN_CHARS_MAX) throw new Error(`longer than ${PATTERN_CHARS_MAX} characters`)
    if (text.length > COUNTED_PATTERN_CHARS_MAX && /\{\d/.test(text))
      throw new Error(`longer than ${COUNTED_PATTERN_CHARS_MAX} characters with counted repetitions`)
    this.compiled = compile(text)
    if (this.compiled.programSize() > INSTRUCTIONS_MAX)
      throw new Error(`compiles to more than ${INSTRUCTIONS_MAX} instructions`)
    if (this.compiled.groupCount() > GROUPS_MAX) throw new Error(`more than ${GROUPS_MAX} groups`)
    this.names = new Map(Object.entries(this.compiled.namedGroups()))
  }

  /** The leftmost match anywhere in the text. Null if there is none, or if the text is too long to search. */
  find(text: string): PatternMatch | null {
    if (text.length > TEXT_CHARS_MAX) return null
    const match = this.compiled.exec(text)
    return match && { groups: Array.from(match, (group) => group ?? ''), names: this.names }
  }
}

/** Errors have Go's text. */
function compile(text: string): RE2JS {
  try {
    return RE2JS.compile(text)
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) throw error
    throw new Error(`error parsing regexp: ${error.error}: \`${error.input ?? ''}\``, { cause: error })
  }
}
