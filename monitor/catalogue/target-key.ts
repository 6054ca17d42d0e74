/**
 * The target key (spec 3.4): equal for two URLs of one target. It identifies catalogue entries and detections.
 *
 *     HTTPS://Relay.Example.COM.:443/v1/models?x#y  ──►  https://relay.example.com
 *     http://例え.jp:8080/api/                      ──►  http://xn--r8jz45g.jp:8080/api
 *
 * Syntax only: which hosts and ports are allowed is decided in egress/.
 */
import { trimEndSlashes } from '../trim-slashes.ts'

const PATH_CHARS_MAX = 256
const URL_CHARS_MAX = 2_048

/** Null when it is not an absolute http or https URL, has user info, or exceeds the bounds. */
export function toTargetKey(text: string): string | null {
  const url = parsedUrl(text)
  if (!url) return null
  const path = trimEndSlashes(trimEndSlashes(url.pathname).replace(/\/v1(\/models)?$/, ''))
  return path.length > PATH_CHARS_MAX ? null : `${toOrigin(url)}${path}`
}

/** The URL as it is published: canonical host, path kept. */
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
