/**
 * Pages that replace a relay: challenges ("prove that you are human") and parked domains (spec 6.2).
 *
 * The tables are data: a mark is a lower-case piece of the page, found anywhere in it, or a name server or alias that only
 * parking services use. Pages that are drawn by script and contain no mark are not recognised.
 */
import type { ProbeResponse } from './probe-response.ts'

/** Searched in 403 and 503 pages; `cf-mitigated: challenge` needs no mark. */
const CHALLENGE_MARKS = [
  '/cdn-cgi/challenge-platform/',
  '_cf_chl_opt',
  'cf-browser-verification',
  '<title>just a moment...</title>',
  'checking your browser before accessing',
  '/.well-known/ddos-guard/',
  '_incapsula_resource',
  'px-captcha',
  'captcha-delivery.com',
  'acw_sc__v2',
  'aliyun_waf',
  'sucuri_cloudproxy',
  'awswaf.com/',
  '/.within.website/x/cmd/anubis/',
]

const PARKING_SERVICES = [
  'sedoparking.com',
  'parkingcrew.net',
  'bodis.com',
  'parklogic.com',
  'above.com',
  'afternic.com',
  'dan.com',
  'undeveloped.com',
  'hugedomains.com',
  'uniregistrymarket.link',
  'ztomy.com',
  'parkingspa.com',
]

/** Searched only in pages served instead of the listing, so a sentence in a shop or a blog does not match. */
const PARKED_MARKS = [
  ...['sedoparking.com', 'parkingcrew.net', 'bodis.com', 'parklogic.com', 'hugedomains.com', 'afternic.com'],
  'window.park = ',
  'this domain is for sale',
  'this domain may be for sale',
  'buy this domain',
  'domain is parked',
  'parked free, courtesy of',
  'domain has expired',
  '该域名正在出售',
  '域名出售',
  '域名已过期',
]
const PAGE_CHARS = 65_536 // searched

export function isChallenge({ status, headers, isHtml, text }: ProbeResponse): boolean {
  if (headers.get('cf-mitigated')?.toLowerCase() === 'challenge') return true
  return (status === 403 || status === 503) && isHtml && hasMark(text, CHALLENGE_MARKS)
}

export function isParkedPage({ isHtml, text }: ProbeResponse): boolean {
  return isHtml && hasMark(text, PARKED_MARKS)
}

/** `names`: CNAMEs of a host, or its name servers. */
export function isParkedName(names: readonly string[]): boolean {
  return names.some((name) =>
    PARKING_SERVICES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`)),
  )
}

function hasMark(text: string, marks: readonly string[]): boolean {
  const page = text.slice(0, PAGE_CHARS).toLowerCase()
  return marks.some((mark) => page.includes(mark))
}
