/**
 * What v1 says of its end, from the day a v2 is there (spec 9). Off until somebody sets the day: there is no v2 yet.
 *
 *     ── release of v2 ───────────── 12 months at least ───────────── sunset ──
 *        nothing │ Deprecation (RFC 9745), Sunset (RFC 8594), Link          │ the same, and 410 version_retired
 *
 * A pure function of options and time. v2 itself will be a second table of endpoints beside v1's, with serializers of its
 * own; those of v1 are held by golden files.
 */
import type { Headers } from './errors.ts'

const BASE = '/api/v1'
const SUNSET_MONTHS_MIN = 12
const PLAIN_PATH = /^[\w.~%/-]{1,200}$/ // what may stand between < and > as it is

export interface Successor {
  releasedSec: number // epoch second from which v2 is served
  sunsetSec: number // from which v1 no longer is
}

export interface VersionNotice {
  headers: Headers
  isRetired: boolean
}

const NOTHING: VersionNotice = { headers: [], isRetired: false }

/** For a request to `path`; nothing while there is no successor, and for what is not v1's. */
export function getNotice(successor: Successor | null, path: string, nowSec: number): VersionNotice {
  const isOurs = path === BASE || path.startsWith(`${BASE}/`)
  if (successor === null || !isOurs || nowSec < successor.releasedSec) return NOTHING
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

/** At the start: a sunset that comes too soon is a mistake of ours, and breaks a promise. */
export function checkSuccessor({ releasedSec, sunsetSec }: Successor): void {
  const earliest = new Date(releasedSec * 1_000)
  earliest.setUTCMonth(earliest.getUTCMonth() + SUNSET_MONTHS_MIN)
  if (sunsetSec * 1_000 >= earliest.getTime()) return
  throw new Error(
    `the sunset of v1 comes less than ${SUNSET_MONTHS_MIN} months after v2: ${earliest.toISOString()} at the earliest`,
  )
}
