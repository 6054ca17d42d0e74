/**
 * Which relay program responds? Every mark of fingerprints.ts that is present adds to its program's confidence (spec 6.2):
 *
 *     confidence = 1 − ∏ (1 − strength)      strong 0.9, weak 0.4, hint 0, at most 0.99; the best of at least 0.5 wins
 *
 * A fork shows the marks of its ancestors too; once a fork has 0.5 itself, its ancestors are ignored.
 */
import type { SiteNotices } from '../facts.ts'
import { shown } from '../shown.ts'
import type { Mark, Software, SoftwareFacts, Where } from './fingerprints.ts'
import { LANDING_PATH, MARKS, PARENTS, STATUS_PATH, VERSIONS } from './fingerprints.ts'
import type { ProbeResponse } from './probe-response.ts'
import { getMember } from './probe-response.ts'

const STRENGTHS: Record<Mark['strength'], number> = { strong: 0.9, weak: 0.4, hint: 0 }
const CONFIDENCE_MAX = 0.99
const CONFIDENCE_MIN = 0.5
const VERSION_CHARS = 40
const TEXT_CHARS = 65_536
const NAME_CHARS = 80

export function detectSoftware(responses: readonly ProbeResponse[]): SoftwareFacts {
  const doubts = new Map<Software, number>() // ∏ (1 − strength)
  for (const { software, strength, where } of MARKS) {
    if (!responses.some((response) => isPresent(where, response))) continue
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
  return { name: best[0], version: detectVersion(best[0], responses), confidence: best[1] }
}

/** Programs with any mark, hints included. */
export function findCandidates(responses: readonly ProbeResponse[]): Set<Software> {
  const marks = MARKS.filter(({ where }) => responses.some((response) => isPresent(where, response)))
  return new Set(marks.map(({ software }) => software))
}

export function readNotices(responses: readonly ProbeResponse[]): SiteNotices {
  const status = responses.find(({ path }) => path === STATUS_PATH)?.json
  const name = getMember(status, 'data.system_name')
  const start = getMember(status, 'data.start_time')
  const topUp = getMember(status, 'data.top_up_link')
  return {
    systemName: typeof name === 'string' ? shown(name, NAME_CHARS) || null : null,
    startTimeSec: Number.isSafeInteger(start) && (start as number) > 0 ? (start as number) : null,
    hasTopUp: topUp === undefined ? null : topUp !== '' && topUp !== null,
  }
}

function isPresent(where: Where, { path, finalPath, status, headers, text, json }: ProbeResponse): boolean {
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

function detectVersion(software: Software, responses: readonly ProbeResponse[]): string | null {
  for (const { of, header, path, member } of VERSIONS) {
    if (!of.includes(software)) continue
    for (const response of responses) {
      const value = header
        ? response.headers.get(header)
        : response.path === path && getMember(response.json, member!)
      const text = typeof value === 'string' ? shown(value, VERSION_CHARS) : ''
      if (text !== '') return text
    }
  }
  return null
}
