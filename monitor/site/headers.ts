/** Headers of HTML pages and assets (spec 11). */
import type { Headers } from '../api/errors.ts'

/** The page with the form, and what its form answers with. */
export const FORM_PATH = '/submit'

/** Nothing inline, nothing from elsewhere, no DOM sink that takes text for markup. */
const POLICY = [
  "default-src 'none'",
  ...['script-src', 'style-src', 'img-src', 'font-src', 'connect-src', 'manifest-src', 'form-action'].map(
    (name) => `${name} 'self'`,
  ),
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const ALL: Headers = [
  ['Content-Security-Policy', POLICY],
  ['X-Content-Type-Options', 'nosniff'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Permissions-Policy', 'camera=(), geolocation=(), microphone=()'],
]
const HSTS = ['Strict-Transport-Security', 'max-age=31536000'] as const

export interface SiteHeaders {
  pages: Headers
  form: Headers // of FORM_PATH
  files: Headers // the same in every language
}

/**
 * `publicBaseUrl`: HSTS only where the site is known to be served over https. The page with the form keeps its referrer for
 * this site: with `no-referrer`, browsers send `Origin: null` both for the site's own form and for a foreign one.
 */
export function siteHeaders(publicBaseUrl: string): SiteHeaders {
  const all = publicBaseUrl.startsWith('https:') ? [...ALL, HSTS] : ALL
  const create = (referrer: string, vary: string): Headers => [
    ...all,
    ['Referrer-Policy', referrer],
    ['Vary', vary],
  ]
  return {
    pages: create('no-referrer', 'Accept-Encoding, Accept-Language'),
    form: create('same-origin', 'Accept-Encoding, Accept-Language'),
    files: create('no-referrer', 'Accept-Encoding'),
  }
}
