/**
 * One response of a relay: headers, text and, if it is any, JSON. All of it is untrusted; text that leaves this folder has
 * passed `shown` or is one of a closed set.
 *
 *     toProbeResponse('/api/status', visit)     null if no complete response arrived
 *     getMember(response.json, 'data.version')  undefined if absent; own members only
 */
import type { Visit } from '../egress/egress.ts'

export interface ProbeResponse {
  path: string // as requested
  finalPath: string // after redirects
  status: number
  headers: ReadonlyMap<string, string> // lower case
  text: string
  json: unknown // undefined = not JSON
  hasJsonType: boolean // by its content type
  isHtml: boolean
}

export function toProbeResponse(path: string, visit: Visit): ProbeResponse | null {
  if (visit.error !== null || visit.status === null) return null
  const text = visit.body.toString('utf8') // at most 1 MiB, bounded by egress
  const type = visit.headers.get('content-type') ?? ''
  return {
    path,
    finalPath: URL.canParse(visit.url) ? new URL(visit.url).pathname : path,
    status: visit.status,
    headers: visit.headers,
    text,
    json: parseJsonOrNull(text),
    hasJsonType: /^application\/([\w.-]+\+)?json\b/i.test(type),
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

function parseJsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
