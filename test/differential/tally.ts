/** What a test has compared so far, and what it found, worded so that it can be seen again. */
import type { Answer, Question } from './ask.ts'
import type { Difference } from './lane.ts'
import type { DomainYaml } from './rules.ts'

export interface Tally {
  questions: number
  descriptors: number
  counters: number // compared in Redis
  statistics: number
  setAside: Map<string, number> // lanes, by reason
  failures: Failure[]
}

export interface Failure {
  what: string
  text: string
}

const FAILURES_MAX = 12 // then a test ends: there is enough to read
const LINES_MAX = 20
const TEXT_LENGTH_MAX = 3_000

export function emptyTally(): Tally {
  const none = { questions: 0, descriptors: 0, counters: 0, statistics: 0 }
  return { ...none, setAside: new Map(), failures: [] }
}

export function isFull(tally: Tally): boolean {
  return tally.failures.length >= FAILURES_MAX
}

export function summary({ questions, descriptors, counters, statistics, setAside }: Tally): string {
  const aside = JSON.stringify(Object.fromEntries(setAside))
  return (
    `${questions} decisions (${descriptors} descriptors), ${counters} counters and ${statistics} statistics compared; ` +
    `lanes set aside: ${aside}`
  )
}

/** `wrong`: one line per counter. */
export function countersFailure(
  what: string,
  wrong: string[],
  settings: object,
  rules: DomainYaml[],
): Failure {
  const lines = [
    `settings ${JSON.stringify(settings)}`,
    ...rules.map(rulesLine),
    ...wrong.slice(0, LINES_MAX),
  ]
  return { what, text: lines.join('\n') }
}

/** `history`: the questions needed to see it, the last one included; `askedCount`: how many there were. */
export function answerFailure(
  { what, ours, reference }: Difference,
  history: Question[],
  askedCount: number,
  settings: object,
  rules: DomainYaml[],
): Failure {
  const lines = [
    `settings ${JSON.stringify(settings)}`,
    ...rules.map(rulesLine),
    `${history.length} of ${askedCount} questions are needed:`,
    ...history.slice(-LINES_MAX).map(questionLine),
    `ours       ${answerLine(ours, reference)}`,
    `reference  ${answerLine(reference, ours)}`,
  ]
  return { what, text: lines.join('\n') }
}

/** JSON is YAML, so the line is a rule file. */
function rulesLine(file: DomainYaml): string {
  return JSON.stringify(file)
}

function questionLine({ request, text }: Question): string {
  if (text === null) return `  grpc ${JSON.stringify(request, printable)}`
  const shown = typeof text === 'string' ? text : Buffer.from(text).toString('latin1')
  return `  json ${JSON.stringify(shown.slice(0, TEXT_LENGTH_MAX))}`
}

function printable(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value
}

function answerLine({ status, headers, body, raw }: Answer, other: Answer): string {
  const isSame = JSON.stringify(body) === JSON.stringify(other.body) // then the bytes must tell
  return `${status} ${headers.replaceAll('\n', ', ')} ${isSame ? raw : JSON.stringify(body)}`
}
