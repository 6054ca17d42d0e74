/**
 * Parses a submission into an allowed target (spec 3.4), in the order of spec 1.2: media type, size, JSON, members, policy.
 * Sends no DNS query.
 */
import { isUtf8 } from 'node:buffer'
import { ApiError } from '../api/errors.ts'
import { check } from '../api/schema/json-schema.ts'
import { components } from '../api/schema/resources.ts'
import { type DetectionTarget, detectionTarget } from './target.ts'

/** The check of egress/url-policy.ts, bound to its policy. */
export type CheckUrl = (
  text: string,
) => { target: { url: URL } } | { refusal: { code: 'invalid_url' | 'target_not_allowed'; reason: string } }

const URL_CHARS_MAX = 2_048
const MEDIA_TYPE_CHARS_MAX = 256 // a longer one is refused unparsed
const CHARSETS = new Set(['charset=utf-8', 'charset="utf-8"'])
const COMPONENTS = components(true)

/** Whether a Content-Type is JSON in UTF-8. */
export function isJson(contentType: string): boolean {
  if (contentType.length > MEDIA_TYPE_CHARS_MAX) return false
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase())
  if (parameters.at(-1) === '') parameters.pop() // one semicolon at the end is tolerated
  const isUtf8 = parameters.length === 0 || (parameters.length === 1 && CHARSETS.has(parameters[0]))
  return type === 'application/json' && isUtf8
}

export function checkMediaType(contentType: string): void {
  if (isJson(contentType)) return
  throw new ApiError('unsupported_media_type', 'the body must be application/json')
}

/** Throws ApiError. */
export function parseSubmission(body: Buffer, checkUrl: CheckUrl): DetectionTarget {
  const { url } = readUrlMember(parseJson(body))
  const checked = checkUrl(url)
  if ('target' in checked) return detectionTarget(checked.target.url)
  const { code, reason } = checked.refusal
  const text = REASONS[reason] ?? (code === 'invalid_url' ? REASONS.form : 'its address is not public')
  throw new ApiError(code, `url: ${text}`)
}

/** Other reasons share one text: a more precise one would reveal the monitor's network. */
const REASONS: Record<string, string> = {
  form: 'must be an absolute http or https URL of 1 to 2048 characters',
  scheme: 'must be http or https',
  user_info: 'must not have a user name or password',
  host: 'its host is not a valid name',
  port: 'its port is not allowed',
  name: 'its host is not a public name',
  own_name: 'this is the service itself',
  opted_out: 'its owner has opted out',
}

function parseJson(body: Buffer): unknown {
  if (!isUtf8(body)) throw new ApiError('invalid_request', 'the body must be UTF-8')
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new ApiError('invalid_request', 'the body must be JSON')
  }
}

function readUrlMember(value: unknown): { url: string } {
  const schema = COMPONENTS.DetectionRequest
  const violation = check(
    { ...schema, required: [], properties: { url: { type: 'string' } } },
    value,
    COMPONENTS,
  )
  if (violation !== null) throw new ApiError('invalid_request', violation)
  const { url } = value as { url?: string }
  if (url !== undefined && url.length > 0 && url.length <= URL_CHARS_MAX) return { url }
  throw new ApiError('invalid_url', `url: ${REASONS.form}`)
}
