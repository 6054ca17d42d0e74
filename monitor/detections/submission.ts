/**
 * A submission from bytes to an allowed target (spec 3.4), in the order of spec 1.2: media type, size, JSON, members,
 * policy. No DNS question is asked here.
 */
import { isUtf8 } from 'node:buffer'
import { ApiError } from '../api/errors.ts'
import { check } from '../api/schema/json-schema.ts'
import { components } from '../api/schema/resources.ts'
import { type DetectionTarget, detectionTarget } from './target.ts'

/** What of egress/url-policy.ts is needed here, bound to its policy. */
export type CheckUrl = (
  text: string,
) => { target: { url: URL } } | { refusal: { code: 'invalid_url' | 'target_not_allowed'; reason: string } }

const URL_CHARS_MAX = 2_048
const MEDIA_TYPE_CHARS_MAX = 256 // a longer one is not looked at
const CHARSETS = new Set(['charset=utf-8', 'charset="utf-8"'])
const COMPONENTS = components(true)

export function checkMediaType(contentType: string): void {
  if (contentType.length <= MEDIA_TYPE_CHARS_MAX) {
    const [type, ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase())
    if (parameters.at(-1) === '') parameters.pop() // one semicolon at the end is tolerated
    const isUtf8Json = parameters.length === 0 || (parameters.length === 1 && CHARSETS.has(parameters[0]))
    if (type === 'application/json' && isUtf8Json) return
  }
  throw new ApiError('unsupported_media_type', 'the body must be application/json')
}

/** Throws an ApiError. */
export function parseSubmission(body: Buffer, checkUrl: CheckUrl): DetectionTarget {
  const { url } = readUrlMember(parsed(body))
  const checked = checkUrl(url)
  if ('target' in checked) return detectionTarget(checked.target.url)
  const { code, reason } = checked.refusal
  const text = REASONS[reason] ?? (code === 'invalid_url' ? REASONS.form : 'its address is not public')
  throw new ApiError(code, `url: ${text}`)
}

/** Reasons of one kind share a text where a finer one would tell of our network. */
const REASONS: Record<string, string> = {
  form: 'must be an absolute http or https URL of 1 to 2048 characters',
  scheme: 'must be http or https',
  user_info: 'must not have a user name or password',
  host: 'its host is not a valid name',
  port: 'its port is not allowed',
  name: 'its host is not a public name',
  own_name: 'this is the service itself',
  opted_out: 'its owner does not want it to be looked at',
}

function parsed(body: Buffer): unknown {
  if (!isUtf8(body)) throw new ApiError('invalid_request', 'the body must be UTF-8')
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new ApiError('invalid_request', 'the body must be JSON')
  }
}

function readUrlMember(value: unknown): { url: string } {
  const schema = COMPONENTS.DetectionRequest
  const complaint = check(
    { ...schema, required: [], properties: { url: { type: 'string' } } },
    value,
    COMPONENTS,
  )
  if (complaint !== null) throw new ApiError('invalid_request', complaint)
  const { url } = value as { url?: string }
  if (url !== undefined && url.length > 0 && url.length <= URL_CHARS_MAX) return { url }
  throw new ApiError('invalid_url', `url: ${REASONS.form}`)
}
