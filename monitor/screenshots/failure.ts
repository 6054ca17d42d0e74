/** Failure reasons, a closed enumeration used by the metric, the log and the `error` column. */

/** The first group is about the site and uses up one of its tries; the second is about this host and does not. */
export const SITE_REASONS = [
  'target_not_allowed', // the egress policy refuses the page, or where it leads
  'unreachable', // DNS, TCP, TLS or HTTP failed
  'http_error', // the page has a status of 400 or more
  'timeout', // the page was not there in time
  'too_large', // the page itself exceeds the bytes or the requests of a session
  'memory', // the browser exceeded its memory
  'crashed', // the page crashed the browser
  'image_too_large', // at the lowest quality
] as const
export const HOST_REASONS = [
  'browser', // it does not start
  'sandbox', // it has no sandbox here
  'store', // the picture cannot be stored
  'closed', // the monitor is shutting down
] as const
export type ScreenshotReason = (typeof SITE_REASONS)[number] | (typeof HOST_REASONS)[number]

/** `detail`: for the log; one line, at most 200 characters, never text of the target. */
export class ScreenshotFailure extends Error {
  override name = 'ScreenshotFailure'
  readonly reason: ScreenshotReason
  readonly detail: string

  constructor(reason: ScreenshotReason, detail: string, options?: ErrorOptions) {
    const line = detail.split('\n', 1)[0].slice(0, DETAIL_CHARS)
    super(`${reason}: ${line}`, options)
    this.reason = reason
    this.detail = line
  }
}

const DETAIL_CHARS = 200

export function isOfSite(reason: ScreenshotReason): boolean {
  return (SITE_REASONS as readonly string[]).includes(reason)
}
