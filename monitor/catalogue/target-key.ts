/**
 * Two addresses of one target have one key (spec 3.4): catalogue entries and detections are told apart by it.
 *
 *     HTTPS://Relay.Example.COM.:443/v1/models?x#y  ──►  https://relay.example.com
 *     http://例え.jp:8080/api/                      ──►  http://xn--r8jz45g.jp:8080/api
 *
 * Syntax alone, no policy: which hosts and ports may be asked is egress' part.
 */
import { trimEndSlashes } from '../trim-slashes.ts'

const PATH_CHARS_MAX = 256
const URL_CHARS_MAX = 2_048

/** null: not an absolute http or https address, or with user info, or beyond the bounds. */
export function toTargetKey(text: string): string | null {
  const url = parsedUrl(text)
  if (!url) return null
  const path = trimEndSlashes(trimEndSlashes(url.pathname).replace(/\/v1(\/models)?$/, ''))
  return path.length > PATH_CHARS_MAX ? null : `${toOrigin(url)}${path}`
}

/** The address as it is shown: canonical host, its path kept. */
export function canonicalUrl(url: URL): string {
  return `${toOrigin(url)}${trimEndSlashes(url.pathname)}`
}

export function parsedUrl(text: string): URL | null {
  if (text.length > URL_CHARS_MAX || !URL.canParse(text)) return null
  const url = new URL(text)
  const isHttp = url.protocol === 'http:' || url.protocol === 'https:'
  return isHttp && url.username === '' && url.password === '' && url.port !== '0' ? url : null
}

function toOrigin(url: URL): string {
  return `${url.protocol}//${url.hostname.replace(/\.$/, '')}${url.port && `:${url.port}`}`
}
