/**
 * Cost of a regular expression on hostile texts, as a multiple of a plain loop over the same text. A linear expression
 * stays below MULTIPLE_MAX at every length; one that backtracks exceeds it after some thousand characters.
 *
 *     every text, 16 to 4,096 characters ──► the 8 most expensive, up to the longest text the expression can get
 *
 * Times are compared within one run and only a repeated excess counts, so a busy machine does not matter.
 */
import { runInNewContext } from 'node:vm'
import { type HostileText, hostileTexts, toText } from './hostile-texts.ts'

export const MULTIPLE_MAX = 1_000 // of a loop over at least SCREEN_CHARS; a bounded repetition may cost its bound per character
const SCREEN_CHARS = 4_096
const SCREEN_LENGTHS = [16, 24, 32, 48, 64, 256, 1_024, SCREEN_CHARS] // short ones first: some would not end
const EXPENSIVE = 8
const ATTEMPTS = 8
const HANG_MS = 60_000 // then V8 aborts the match; it is no measurement

export interface Cost {
  multiple: number
  text: HostileText | null
  chars: number
}

/** The most expensive text, or the first above MULTIPLE_MAX. Throws when a match does not end or overflows V8's stack. */
export function worstCost(
  pattern: RegExp,
  { charsMax, isRepeated }: { charsMax: number; isRepeated: boolean },
): Cost {
  const run = runner(pattern, isRepeated)
  let worst: Cost = { multiple: 0, text: null, chars: 0 }
  let current: HostileText | null = null
  const measure = (text: HostileText, chars: number, whole: string) => {
    current = text
    const multiple = measureMultiple(run, chars === whole.length ? whole : toText(text, chars), whole)
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
    for (const { text } of screened.slice(0, EXPENSIVE)) {
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

function measureMultiple(run: (text: string) => void, text: string, whole: string): number {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && least > MULTIPLE_MAX; attempt++) {
    const scanNs = measureNs(() => scan(whole))
    least = Math.min(least, measureNs(() => run(text)) / scanNs)
  }
  return least
}

/** As the sources use the expression: one match, or all matches of the text. */
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

let sum = 0 // used after the loop, or V8 would remove the loop
function scan(text: string): void {
  for (let i = 0; i < text.length; i++) sum = (sum + text.charCodeAt(i)) | 0
}

function measureNs(work: () => void): number {
  const startNs = process.hrtime.bigint()
  work()
  return Number(process.hrtime.bigint() - startNs)
}
