/** Small files for machines: robots.txt, sitemap, manifest, security.txt (RFC 9116), badges. */
import type { Tier } from '../facts.ts'
import type { Snapshot } from '../storage/snapshot.ts'
import { type Html, html } from './html.ts'

const PAGES = ['/', '/leaderboard', '/submit', '/methodology', '/about/probe', '/changelog', '/docs']
const SECURITY_DAYS = 180
const DAY_MS = 86_400_000

/** Results of detections are unlisted, and the API is not for search engines. */
export function robots(publicBaseUrl: string): string {
  const sitemap = publicBaseUrl === '' ? '' : `Sitemap: ${publicBaseUrl}/sitemap.xml\n`
  return `User-agent: *\nDisallow: /api/\nDisallow: /detections/\n${sitemap}`
}

/** Needs an absolute address; without PUBLIC_BASE_URL there is no sitemap. At most 5,000 sites are published. */
export function sitemap(publicBaseUrl: string, { sites }: Snapshot): Html {
  const paths = [...PAGES, ...sites.map(({ slug }) => `/sites/${slug}`)]
  return html`<?xml version="1.0" encoding="utf-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">${paths.map((path) => html`<url><loc>${publicBaseUrl}${path}</loc></url>`)}</urlset>
`
}

export function manifest(): string {
  return JSON.stringify({
    name: 'Relay Monitor',
    short_name: 'Relays',
    start_url: '/',
    display: 'minimal-ui',
    background_color: '#fcfcfb',
    theme_color: '#fcfcfb',
    icons: [{ src: '/favicon.svg', sizes: 'any', type: 'image/svg+xml' }],
  })
}

/** `Expires` moves with the day, so it is always less than a year ahead. */
export function securityTxt(supportEmail: string, nowMs: number): string {
  const expires = new Date(Math.floor(nowMs / DAY_MS) * DAY_MS + SECURITY_DAYS * DAY_MS).toISOString()
  return `Contact: mailto:${supportEmail}\nExpires: ${expires}\nPreferred-Languages: en, zh\n`
}

/** Letter fields in the light theme's colours: white on each has a contrast of at least 4.5. */
const BADGE_COLORS: Record<Tier, string> = {
  S: '#0b6b4b',
  A: '#0b6b4b',
  B: '#0b6b4b',
  C: '#8a5000',
  D: '#b3261e',
}

export function badge(tier: Tier): Html {
  return html`<svg xmlns="http://www.w3.org/2000/svg" width="92" height="20" role="img" aria-label="Relay tier ${tier}"><title>Relay tier ${tier}</title><rect width="92" height="20" rx="3" fill="#2a2f33"/><path d="M64 0h25a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H64z" fill="${BADGE_COLORS[tier]}"/><g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle"><text x="32" y="14">relay tier</text><text x="78" y="14" font-weight="700">${tier}</text></g></svg>
`
}
