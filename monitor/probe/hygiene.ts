/**
 * Facts about how well a site is maintained (spec 7.2): does http redirect to https, is HSTS on, do its errors leak the
 * upstream or a key? Each is true, false or null (not known).
 */
import type { Visit } from '../egress/egress.ts'
import type { Hygiene } from '../facts.ts'
import type { ProbeResponse } from './probe-response.ts'

/**
 * Hosts behind relays. Their help pages (platform.openai.com) are not a leak: many sites link there. A name that starts with
 * a variable label is tried once per run of label characters; otherwise a page of `a-a-a-` would take quadratic time.
 */
const UPSTREAM =
  /(?:\b(?:api\.openai\.com|api\.anthropic\.com|generativelanguage\.googleapis\.com|aiplatform\.googleapis\.com|bedrock-runtime\.[\w-]{1,63}\.amazonaws\.com|openrouter\.ai|api\.deepseek\.com|api\.x\.ai|dashscope\.aliyuncs\.com|ark\.[\w-]{1,63}\.volces\.com)|(?<![\w-])[\w-]{1,63}\.openai\.azure\.com)\b/gi
const KEY = /\b(sk-[A-Za-z0-9_-]{20,}|AIza[0-9A-Za-z_-]{30,}|AKIA[0-9A-Z]{16})(?![*.…])/
const INTERNAL_ADDRESS =
  /\b(dial tcp|connect ECONNREFUSED|https?:\/\/)\s*(10\.\d+|127\.\d+|192\.168|172\.(1[6-9]|2\d|3[01]))\.\d+\.\d+/
const TEXT_CHARS = 65_536

/** `insecure`: a visit over http that started at the site's host, null = not made. */
export function checkHygiene(
  base: URL,
  responses: readonly ProbeResponse[],
  insecure: Visit | null,
): Hygiene {
  return {
    redirectsToHttps: insecure && leadsToHttps(insecure),
    hasHsts: hasHsts(base, responses),
    leaksUpstream: leaksUpstream(base, responses),
  }
}

/** A port that refuses or never accepts a connection counts as closed. */
function leadsToHttps({ error, hops }: Visit): boolean | null {
  const [{ url, status, location }] = hops
  if (hops.length === 1 && error?.startsWith('connect_')) return true
  if (status === null) return null
  return location !== null && URL.canParse(location, url) && new URL(location, url).protocol === 'https:'
}

function hasHsts(base: URL, responses: readonly ProbeResponse[]): boolean | null {
  if (base.protocol === 'http:') return false // browsers honour it over https only
  if (responses.length === 0) return null
  return responses.some(({ headers }) => {
    const age = /max-age\s*=\s*"?(\d+)/i.exec(headers.get('strict-transport-security') ?? '')
    return age !== null && Number(age[1]) > 0
  })
}

function leaksUpstream(base: URL, responses: readonly ProbeResponse[]): boolean | null {
  const errors = responses.filter(({ status }) => status >= 400)
  if (errors.length === 0) return null
  return errors.some((response) => {
    const text = response.text.slice(0, TEXT_CHARS)
    const hosts = text.match(UPSTREAM) ?? []
    return (
      KEY.test(text) ||
      INTERNAL_ADDRESS.test(text) ||
      hosts.some((host) => host.toLowerCase() !== base.hostname)
    )
  })
}
