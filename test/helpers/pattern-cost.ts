/**
 * Cost of a regular expression on hostile texts, as a multiple of a plain loop over the same text. A linear expression
 * stays below MULTIPLE_MAX at every length; one that backtracks exceeds it after some thousand characters.
 *
 *     every text              16 to 4,096 characters
 *     the 8 most expensive    16,384 and 65,536 characters, then extrapolated to the longest text the expression can get;
 *                             measured up to the longest text with SLUICE_SIZE=full
 *
 * A multiple that is constant between two lengths stays constant; the one of a quadratic expression grows with the length.
 * Times are compared within one run and only a repeated excess counts, so that a busy machine changes nothing.
 */
import { runInNewContext } from 'node:vm'
import { type HostileText, hostileTexts, toText } from './hostile-texts.ts'
import { size } from './size.ts'

export const MULTIPLE_MAX = 1_000 // of a loop over at least SCREEN_CHARS; a bounded repetition may cost its bound per character
const SCREEN_CHARS = 4_096
const SCREEN_LENGTHS = [16, 20, 22, 24, 26, 28, 30, 32, 48, 64, 256, 1_024, SCREEN_CHARS] // in small steps at first: an exponential one must exceed the limit before it takes minutes
const GROWTH = 4 // from one length to the next
const MEASURED_CHARS_MAX = size({ small: GROWTH ** 2 * SCREEN_CHARS, full: Number.POSITIVE_INFINITY }) // longer texts are extrapolated
const EXPENSIVE = 8
const ATTEMPTS = 8
const GROWTH_ATTEMPTS = 16
const CERTAIN_US = 20_000 // of processor time: no interruption by others explains it, so it is not measured again
const GROWTH_MIN = 0.5 // exponent of the multiple: 0 is linear, 1 quadratic; less is noise
const HANG_MS = 60_000 // V8 then stops the match with an error, so nothing depends on this time

export interface Cost {
  multiple: number
  text: HostileText | null
  chars: number
}

/** The most expensive text, or the first above MULTIPLE_MAX. Throws when a match does not end or overflows V8's stack. */
export function findWorstCost(
  pattern: RegExp,
  { charsMax, isRepeated }: { charsMax: number; isRepeated: boolean },
): Cost {
  const run = createRunner(pattern, isRepeated)
  let worst: Cost = { multiple: 0, text: null, chars: 0 }
  let current: HostileText | null = null
  const add = (text: HostileText, chars: number, multiple: number) => {
    if (multiple > worst.multiple) worst = { multiple, text, chars }
    return multiple
  }
  const search = () => {
    const screened: { text: HostileText; multiple: number }[] = []
    for (const text of hostileTexts(pattern)) {
      current = text
      let multiple = 0
      for (const chars of SCREEN_LENGTHS) {
        const whole = toText(text, chars)
        multiple = add(text, chars, measureMultiple(run, whole, Math.max(whole.length, SCREEN_CHARS)))
        if (multiple > MULTIPLE_MAX) return
      }
      screened.push({ text, multiple })
    }
    screened.sort((one, other) => other.multiple - one.multiple)
    for (const { text } of screened.slice(0, EXPENSIVE)) {
      current = text
      if (measureLong(text) > MULTIPLE_MAX) return
    }
  }
  const measureLong = (text: HostileText): number => {
    let before = ''
    let whole = ''
    for (let chars = GROWTH * SCREEN_CHARS; chars < GROWTH * charsMax; chars *= GROWTH) {
      if (chars > MEASURED_CHARS_MAX) {
        const multiple = extrapolateMultiple(run, before, whole, charsMax)
        return add(text, charsMax, multiple)
      }
      before = whole
      whole = toText(text, Math.min(chars, charsMax))
      if (add(text, whole.length, measureMultiple(run, whole, whole.length)) > MULTIPLE_MAX) break
    }
    return worst.multiple
  }
  try {
    runInNewContext('search()', { search }, { timeout: HANG_MS })
  } catch (error) {
    throw new Error(`${pattern} on ${JSON.stringify(current)}: ${(error as Error).message}`, { cause: error })
  }
  return worst
}

/** The least of several measurements, or the first that is within MULTIPLE_MAX. */
function measureMultiple(run: (text: string) => void, text: string, scanChars: number): number {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && least > MULTIPLE_MAX; attempt++) {
    const scanNs = attempt === 0 ? readScanNs(scanChars) : measureScanNs(scanChars)
    let ns = 0
    const cpuUs = measureCpuUs(() => {
      ns = measureNs(() => run(text))
    })
    least = Math.min(least, ns / scanNs)
    if (cpuUs > CERTAIN_US) break
  }
  return least
}

/**
 * The multiple at `charsMax` if it grows as from the shorter to the longer text, which is GROWTH times as long. Measured in
 * processor time, because a busy machine interrupts the longer text more often and that would look like growth.
 */
function extrapolateMultiple(
  run: (text: string) => void,
  shorter: string,
  longer: string,
  charsMax: number,
): number {
  const scanUs = measureScanUs(longer.length)
  let [shorterUs, longerUs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  let multiple = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < GROWTH_ATTEMPTS && multiple > MULTIPLE_MAX; attempt++) {
    shorterUs = Math.min(
      shorterUs,
      measureCpuUs(() => run(shorter)),
    )
    longerUs = Math.min(
      longerUs,
      measureCpuUs(() => run(longer)),
    )
    const growth = Math.log(longerUs / shorterUs / (longer.length / shorter.length)) / Math.log(GROWTH)
    const exponent = growth < GROWTH_MIN ? 0 : growth
    multiple = (longerUs / scanUs) * (charsMax / longer.length) ** exponent
    if (longerUs > CERTAIN_US) break
  }
  return multiple
}

function measureScanUs(chars: number): number {
  const text = toText(SCAN_TEXT, chars)
  return Math.min(...Array.from({ length: ATTEMPTS }, () => measureCpuUs(() => scan(text))))
}

/** At least 1, which is the resolution. */
function measureCpuUs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return Math.max(1, user + system)
}

/** As the sources use the expression: one match, or all matches of the text. */
function createRunner(pattern: RegExp, isRepeated: boolean): (text: string) => void {
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

const SCAN_TEXT: HostileText = { prefix: '', pump: 'ab', suffix: '' }
const scanTexts = new Map<number, string>() // by length
const scanNsByChars = new Map<number, number>()

/** The least time of several loops over a text of this length, measured once. */
function readScanNs(chars: number): number {
  let ns = scanNsByChars.get(chars)
  if (ns === undefined) {
    ns = Math.min(...Array.from({ length: ATTEMPTS }, () => measureScanNs(chars)))
    scanNsByChars.set(chars, ns)
  }
  return ns
}

function measureScanNs(chars: number): number {
  let text = scanTexts.get(chars)
  if (text === undefined) {
    text = toText(SCAN_TEXT, chars)
    scanTexts.set(chars, text)
  }
  return measureNs(() => scan(text))
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
