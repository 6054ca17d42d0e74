/** Values for tests of the store, usable without vitest. */
import type { CatalogueSite, Probe } from '../../../monitor/facts.ts'

export const NOW_SEC = 1_795_194_000 // 2026-11-20T17:00:00Z, a full hour

export function catalogueSite(slug: string, more: Partial<CatalogueSite> = {}): CatalogueSite {
  return {
    slug,
    name: slug,
    url: `https://${slug}.example.com`,
    apiBase: `https://${slug}.example.com`,
    firstSeen: null,
    modelsClaimed: [],
    keyFile: null,
    aliases: [],
    regions: ['cn', 'overseas'],
    intervalSec: null,
    hasScreenshot: true,
    flags: [],
    isHidden: false,
    ...more,
  }
}

export function probe(atSec: number, more: Partial<Probe> = {}): Probe {
  const timings = { dnsMs: 4, connectMs: 38, tlsMs: 44, ttfbMs: 212, totalMs: 230 }
  return {
    atSec,
    kind: 'light',
    outcome: 'up',
    error: null,
    httpStatus: 401,
    timings,
    address: null,
    ...more,
  }
}
