/** Headers of HTML pages and assets (spec 11). */
import type { Headers } from '../api/errors.ts'

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
  ['Referrer-Policy', 'no-referrer'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Permissions-Policy', 'camera=(), geolocation=(), microphone=()'],
]
const HSTS = ['Strict-Transport-Security', 'max-age=31536000'] as const

/** `publicBaseUrl`: HSTS only where the site is known to be served over https. */
export function siteHeaders(publicBaseUrl: string): Headers {
  const vary = ['Vary', 'Accept-Encoding, Accept-Language'] as const
  return publicBaseUrl.startsWith('https:') ? [...ALL, vary, HSTS] : [...ALL, vary]
}
