/** Counts of comparisons, and failures with what is needed to reproduce them. */
import type { ReceivedResponse, SentRequest } from './client.ts'
import type { Difference } from './lane.ts'
import type { DomainYaml } from './rules.ts'

export interface Tally {
  requests: number
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

const FAILURES_MAX = 12 // then the test ends
const LINES_MAX = 20
const TEXT_LENGTH_MAX = 3_000

export function emptyTally(): Tally {
  const none = { requests: 0, descriptors: 0, counters: 0, statistics: 0 }
  return { ...none, setAside: new Map(), failures: [] }
}

export function isFull(tally: Tally): boolean {
  return tally.failures.length >= FAILURES_MAX
}

export function summary({ requests, descriptors, counters, statistics, setAside }: Tally): string {
  const aside = JSON.stringify(Object.fromEntries(setAside))
  return (
    `${requests} decisions (${descriptors} descriptors), ${counters} counters and ${statistics} statistics compared; ` +
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

/** `history`: the requests needed to reproduce it, with the last one; `sentCount`: how many were sent. */
export function responseFailure(
  { what, sluice, reference }: Difference,
  history: SentRequest[],
  sentCount: number,
  settings: object,
  rules: DomainYaml[],
): Failure {
  const lines = [
    `settings ${JSON.stringify(settings)}`,
    ...rules.map(rulesLine),
    `${history.length} of ${sentCount} requests are needed:`,
    ...history.slice(-LINES_MAX).map(requestLine),
    `sluice     ${responseLine(sluice, reference)}`,
    `reference  ${responseLine(reference, sluice)}`,
  ]
  return { what, text: lines.join('\n') }
}

/** JSON is YAML, so the line is a rule file. */
function rulesLine(file: DomainYaml): string {
  return JSON.stringify(file)
}

function requestLine({ request, text }: SentRequest): string {
  if (text === null) return `  grpc ${JSON.stringify(request, printable)}`
  const shown = typeof text === 'string' ? text : Buffer.from(text).toString('latin1')
  return `  json ${JSON.stringify(shown.slice(0, TEXT_LENGTH_MAX))}`
}

function printable(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value
}

function responseLine({ status, headers, body, raw }: ReceivedResponse, other: ReceivedResponse): string {
  const isSame = JSON.stringify(body) === JSON.stringify(other.body) // then the bytes differ
  return `${status} ${headers.replaceAll('\n', ', ')} ${isSame ? raw : JSON.stringify(body)}`
}
