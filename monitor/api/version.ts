/**
 * Deprecation of v1 from the release of a v2 (spec 9). Inactive without a `Successor`: there is no v2 yet.
 *
 *     ── release of v2 ───────────── 12 months at least ───────────── sunset ──
 *        nothing │ Deprecation (RFC 9745), Sunset (RFC 8594), Link          │ the same, and 410 version_retired
 *
 * A pure function of options and time. v2 will have a table of endpoints and serializers of its own; golden files keep
 * those of v1 unchanged.
 */
import type { Headers } from './errors.ts'

const BASE = '/api/v1'
const SUNSET_MONTHS_MIN = 12
const PLAIN_PATH = /^[\w.~%/-]{1,200}$/ // needs no escaping between < and >

export interface Successor {
  releasedSec: number // epoch second from which v2 is served
  sunsetSec: number // epoch second from which v1 is not served
}

export interface VersionNotice {
  headers: Headers
  isRetired: boolean
}

const NOTHING: VersionNotice = { headers: [], isRetired: false }

/** The headers for a request to `path`; none without a successor and outside v1. */
export function getNotice(successor: Successor | null, path: string, nowSec: number): VersionNotice {
  const isInV1 = path === BASE || path.startsWith(`${BASE}/`)
  if (successor === null || !isInV1 || nowSec < successor.releasedSec) return NOTHING
  const { releasedSec, sunsetSec } = successor
  const rest = PLAIN_PATH.test(path) ? path.slice(BASE.length) : ''
  const links = [
    '</changelog#v2>; rel="deprecation"',
    '</changelog#v1-sunset>; rel="sunset"',
    `</api/v2${rest}>; rel="successor-version"`,
  ]
  return {
    isRetired: nowSec >= sunsetSec,
    headers: [
      ['Deprecation', `@${releasedSec}`],
      ['Sunset', new Date(sunsetSec * 1_000).toUTCString()],
      ['Link', links.join(', ')],
    ],
  }
}

/** Throws when the sunset is less than SUNSET_MONTHS_MIN after the release. */
export function checkSuccessor({ releasedSec, sunsetSec }: Successor): void {
  const earliest = new Date(releasedSec * 1_000)
  earliest.setUTCMonth(earliest.getUTCMonth() + SUNSET_MONTHS_MIN)
  if (sunsetSec * 1_000 >= earliest.getTime()) return
  throw new Error(
    `the sunset of v1 comes less than ${SUNSET_MONTHS_MIN} months after v2: ${earliest.toISOString()} at the earliest`,
  )
}
