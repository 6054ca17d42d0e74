/**
 * One answer of a relay, as the judges of this folder read it: headers, text, and JSON if it is some. All of it is a
 * stranger's; whatever leaves this folder goes through `shown` or through a closed set of words.
 *
 *     answerOf('/api/status', visit)          null when no whole answer came
 *     memberOf(answer.json, 'data.version')   undefined when it is not there; own members only
 */
import type { Visit } from '../egress/egress.ts'

export interface ProbeResponse {
  path: string // as asked for
  finalPath: string // after redirects
  status: number
  headers: ReadonlyMap<string, string> // lower case
  text: string
  json: unknown // undefined = not JSON
  saysJson: boolean // its content type
  isHtml: boolean
}

export function toProbeResponse(path: string, visit: Visit): ProbeResponse | null {
  if (visit.error !== null || visit.status === null) return null
  const text = visit.body.toString('utf8') // at most 1 MiB, egress sees to it
  const type = visit.headers.get('content-type') ?? ''
  return {
    path,
    finalPath: URL.canParse(visit.url) ? new URL(visit.url).pathname : path,
    status: visit.status,
    headers: visit.headers,
    text,
    json: parseJsonOrNull(text),
    saysJson: /^application\/([\w.-]+\+)?json\b/i.test(type),
    isHtml: /^text\/html\b|^application\/xhtml/i.test(type) || /^\s*<(!doctype|html)\b/i.test(text),
  }
}

export function getMember(value: unknown, path: string): unknown {
  let found = value
  for (const name of path.split('.')) {
    if (!isRecord(found) || !Object.hasOwn(found, name)) return undefined
    found = found[name]
  }
  return found
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What shows as nothing, or turns the text around it: controls, zero widths, directions. */
const UNSEEN = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/** A stranger's text fit to be shown: one line, nothing unseen, at most `charsMax`. */
export function shown(text: string, charsMax: number): string {
  return text
    .slice(0, 4 * charsMax)
    .replace(UNSEEN, '')
    .toWellFormed()
    .trim()
    .slice(0, charsMax)
    .toWellFormed()
}

function parseJsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
