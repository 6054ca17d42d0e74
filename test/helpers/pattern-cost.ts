/**
 * What a regular expression costs on hostile texts, as a multiple of a plain loop over the same text. A linear expression
 * stays below MULTIPLE_MAX at every length; one that backtracks passes it after some thousand characters.
 *
 *     every text, 16 to 4,096 characters ──► the 8 dearest, up to the longest text the expression can see
 *
 * Times are compared within one run and only a repeated excess counts, so that a busy machine changes nothing.
 */
import { runInNewContext } from 'node:vm'
import { type HostileText, hostileTexts, toText } from './hostile-texts.ts'

export const MULTIPLE_MAX = 1_000 // of a loop over at least SCREEN_CHARS; a bounded repetition may cost its bound per character
const SCREEN_CHARS = 4_096
const SCREEN_LENGTHS = [16, 24, 32, 48, 64, 256, 1_024, SCREEN_CHARS] // short ones first: some would never end
const DEAREST = 8
const ATTEMPTS = 8
const HANG_MS = 60_000 // V8 then breaks off the match; nothing is measured by it

export interface Cost {
  multiple: number
  text: HostileText | null
  chars: number
}

/** The dearest text, or the first that is too dear. Throws when a match does not end, or overflows the stack of the engine. */
export function worstCost(
  pattern: RegExp,
  { charsMax, isRepeated }: { charsMax: number; isRepeated: boolean },
): Cost {
  const run = runner(pattern, isRepeated)
  let worst: Cost = { multiple: 0, text: null, chars: 0 }
  let current: HostileText | null = null
  const measure = (text: HostileText, chars: number, whole: string) => {
    current = text
    const multiple = multipleOf(run, chars === whole.length ? whole : toText(text, chars), whole)
    if (multiple > worst.multiple) worst = { multiple, text, chars }
    return multiple
  }
  const search = () => {
    const screened: { text: HostileText; multiple: number }[] = []
    for (const text of hostileTexts(pattern)) {
      const whole = toText(text, SCREEN_CHARS)
      let multiple = 0
      for (const chars of SCREEN_LENGTHS) {
        multiple = measure(text, chars, whole)
        if (multiple > MULTIPLE_MAX) return
      }
      screened.push({ text, multiple })
    }
    screened.sort((one, other) => other.multiple - one.multiple)
    for (const { text } of screened.slice(0, DEAREST)) {
      for (let chars = 4 * SCREEN_CHARS; chars < 4 * charsMax; chars *= 4) {
        const whole = toText(text, Math.min(chars, charsMax))
        if (measure(text, whole.length, whole) > MULTIPLE_MAX) return
      }
    }
  }
  try {
    runInNewContext('search()', { search }, { timeout: HANG_MS })
  } catch (error) {
    throw new Error(`${pattern} on ${JSON.stringify(current)}: ${(error as Error).message}`, { cause: error })
  }
  return worst
}

function multipleOf(run: (text: string) => void, text: string, whole: string): number {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && least > MULTIPLE_MAX; attempt++) {
    const scanNs = nsOf(() => scan(whole))
    least = Math.min(least, nsOf(() => run(text)) / scanNs)
  }
  return least
}

/** As the sources use it: one match, or one after another to the end of the text. */
function runner(pattern: RegExp, isRepeated: boolean): (text: string) => void {
  const expression = new RegExp(
    pattern.source,
    isRepeated && !pattern.sticky ? `${pattern.flags.replace('g', '')}g` : pattern.flags,
  )
  if (isRepeated && !pattern.sticky) return (text) => void text.replace(expression, '')
  return (text) => {
    expression.lastIndex = 0
    let end = -1
    while (expression.exec(text) && expression.lastIndex > end) end = expression.lastIndex // ends at once without y
  }
}

let sum = 0 // outlives the loop, or V8 would leave it out
function scan(text: string): void {
  for (let i = 0; i < text.length; i++) sum = (sum + text.charCodeAt(i)) | 0
}

function nsOf(work: () => void): number {
  const startNs = process.hrtime.bigint()
  work()
  return Number(process.hrtime.bigint() - startNs)
}
