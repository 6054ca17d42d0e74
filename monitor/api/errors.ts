/**
 * All errors of the API (spec 1.2): code and status. The body is exactly `error` and `code`.
 *
 *     throw new ApiError('invalid_parameter', 'limit must be an integer from 1 to 200')
 *
 * Texts name the parameter. They repeat nothing of the request but 32 characters of an unknown member's name.
 */

// biome-ignore format: the table of spec 1.2
export const ERROR_STATUS = {
  invalid_parameter:      400,
  invalid_request:        400,
  invalid_url:            400,
  invalid_api_key:        401,
  not_found:              404,
  unknown_version:        404,
  site_not_found:         404,
  detection_not_found:    404,
  method_not_allowed:     405,
  request_timeout:        408,
  detection_expired:      410,
  version_retired:        410,
  payload_too_large:      413,
  unsupported_media_type: 415,
  target_not_allowed:     422,
  rate_limited:           429,
  too_many_pending:       429,
  target_cooldown:        429,
  internal_error:         500,
  queue_full:             503,
  detections_disabled:    503,
  not_ready:              503,
} as const

export type ApiErrorCode = keyof typeof ERROR_STATUS

export type Headers = readonly (readonly [name: string, value: string])[]

/** The changelog in the API, which clients can read (spec 9). */
export const HELP_LINK = ['Link', '</api/v1/changelog>; rel="help"'] as const

/** Headers of a code, for any cause. */
const OF_CODE: Partial<Record<ApiErrorCode, Headers>> = {
  invalid_api_key: [['WWW-Authenticate', 'Bearer']],
  unknown_version: [HELP_LINK],
  unsupported_media_type: [['Accept-Post', 'application/json']],
  too_many_pending: [['Retry-After', '5']],
  queue_full: [['Retry-After', '30']],
  detections_disabled: [['Retry-After', '3600']],
  not_ready: [['Retry-After', '5']],
}

/** After these errors the rest of the connection cannot be read. */
const CLOSING: readonly ApiErrorCode[] = ['request_timeout', 'payload_too_large']

export const TEXT_CHARS_MAX = 300

export class ApiError extends Error {
  override name = 'ApiError'
  readonly code: ApiErrorCode
  readonly headers: Headers

  constructor(code: ApiErrorCode, text: string, headers: Headers = []) {
    super(text.slice(0, TEXT_CHARS_MAX))
    this.code = code
    this.headers = [...(OF_CODE[code] ?? []), ...headers]
  }

  get status(): number {
    return ERROR_STATUS[this.code]
  }

  get mustClose(): boolean {
    return CLOSING.includes(this.code)
  }

  body(): string {
    return JSON.stringify({ error: this.message, code: this.code })
  }
}

export function retryAfter(seconds: number): Headers {
  return [['Retry-After', String(Math.max(1, Math.ceil(seconds)))]]
}
