/**
 * Which program answers? Every mark of fingerprints.ts that is there adds to its program's confidence (spec 6.2):
 *
 *     confidence = 1 − ∏ (1 − strength)      strong 0.9, weak 0.4, hint 0, at most 0.99; the best of at least 0.5 wins
 *
 * A program shows the marks of those it descends from; so once a descendant has 0.5 itself, its ancestors step back.
 */
import type { SiteNotices } from '../facts.ts'
import type { Mark, Software, SoftwareFacts, Where } from './fingerprints.ts'
import { LANDING_PATH, MARKS, PARENTS, STATUS_PATH, VERSIONS } from './fingerprints.ts'
import type { ProbeResponse } from './probe-response.ts'
import { getMember, shown } from './probe-response.ts'

const STRENGTHS: Record<Mark['strength'], number> = { strong: 0.9, weak: 0.4, hint: 0 }
const CONFIDENCE_MAX = 0.99
const CONFIDENCE_MIN = 0.5
const VERSION_CHARS = 40
const TEXT_CHARS = 65_536
const NAME_CHARS = 80

export function detectSoftware(answers: readonly ProbeResponse[]): SoftwareFacts {
  const doubts = new Map<Software, number>() // ∏ (1 − strength)
  for (const { software, strength, where } of MARKS) {
    if (!answers.some((answer) => isThere(where, answer))) continue
    doubts.set(software, (doubts.get(software) ?? 1) * (1 - STRENGTHS[strength]))
  }
  const confidences = new Map<Software, number>()
  for (const [software, doubt] of doubts) {
    const confidence = Math.min(CONFIDENCE_MAX, Math.round((1 - doubt) * 10_000) / 10_000)
    if (confidence >= CONFIDENCE_MIN) confidences.set(software, confidence)
  }
  const hidden = new Set<Software>()
  for (const software of confidences.keys()) {
    for (let above = PARENTS[software]; above !== undefined; above = PARENTS[above]) hidden.add(above)
  }
  const [best] = [...confidences].filter(([software]) => !hidden.has(software)).sort((a, b) => b[1] - a[1])
  if (best === undefined) return { name: 'unknown', version: null, confidence: 0 }
  return { name: best[0], version: detectVersion(best[0], answers), confidence: best[1] }
}

/** Programs of which anything shows, be it a hint. */
export function suspectsIn(answers: readonly ProbeResponse[]): Set<Software> {
  const marks = MARKS.filter(({ where }) => answers.some((answer) => isThere(where, answer)))
  return new Set(marks.map(({ software }) => software))
}

export function readNotices(answers: readonly ProbeResponse[]): SiteNotices {
  const status = answers.find(({ path }) => path === STATUS_PATH)?.json
  const name = getMember(status, 'data.system_name')
  const start = getMember(status, 'data.start_time')
  const topUp = getMember(status, 'data.top_up_link')
  return {
    systemName: typeof name === 'string' ? shown(name, NAME_CHARS) || null : null,
    startTimeSec: Number.isSafeInteger(start) && (start as number) > 0 ? (start as number) : null,
    hasTopUp: topUp === undefined ? null : topUp !== '' && topUp !== null,
  }
}

function isThere(where: Where, { path, finalPath, status, headers, text, json }: ProbeResponse): boolean {
  if ('header' in where) return headers.has(where.header)
  if ('errorType' in where) return getMember(json, 'error.type') === where.errorType
  if ('landsOn' in where) return path === LANDING_PATH && finalPath.startsWith(where.landsOn)
  if (path !== where.path) return false
  if ('has' in where) {
    const isNone = where.without?.every((name) => getMember(json, name) === undefined) ?? true
    return isNone && where.has.every((name) => getMember(json, name) !== undefined)
  }
  if ('text' in where) return status === 200 && where.text.test(text.slice(0, TEXT_CHARS).trim())
  const value = getMember(json, where.member)
  return typeof value === 'string' && where.matches.test(value)
}

function detectVersion(software: Software, answers: readonly ProbeResponse[]): string | null {
  for (const { of, header, path, member } of VERSIONS) {
    if (!of.includes(software)) continue
    for (const answer of answers) {
      const value = header
        ? answer.headers.get(header)
        : answer.path === path && getMember(answer.json, member!)
      const text = typeof value === 'string' ? shown(value, VERSION_CHARS) : ''
      if (text !== '') return text
    }
  }
  return null
}
