/**
 * What agents are to probe: the catalogue of each region with its hash, and the vantages online (spec 6.5, 8.1).
 *
 *     setSites ─► cn        { sha256, content, siteIds }      an agent with the same hash is sent no content
 *              └► overseas  { … }
 *     recordPoll ─► online: names of a region that polled within a minute, for the rotation (scheduler/schedule.ts)
 *
 * Built when the catalogue changes, not per poll. Key files and the stored state of a site are not sent: a light probe needs
 * neither, and without them the hash changes with the catalogue only.
 */
import type { Region } from '../facts.ts'
import type { ProberSite } from '../prober/messages.ts'
import type { VantageState } from '../storage/snapshot.ts'
import { type CatalogueContent, hashContent, ONLINE_SEC } from './wire.ts'

export type AgentSite = Pick<
  ProberSite,
  'siteId' | 'slug' | 'url' | 'apiBase' | 'extraPort' | 'intervalSec'
> & {
  regions: readonly Region[]
}

export interface Assignment {
  sha256: string
  content: CatalogueContent
  siteIds: ReadonlyMap<string, number> // by slug
  intervalsSec: ReadonlyMap<number, number | null> // by site; null: that of all
}

export class Assignments {
  private byRegion: Record<Region, Assignment> | null = null
  private readonly seenSec = new Map<string, number>() // by name; at most one per vantage ever created

  setSites(sites: readonly AgentSite[], optOut: Iterable<string>): void {
    const hosts = [...optOut].sort()
    this.byRegion = { cn: assign('cn', sites, hosts), overseas: assign('overseas', sites, hosts) }
  }

  /** Null before the first catalogue. */
  getAssignment(region: Region): Assignment | null {
    return this.byRegion?.[region] ?? null
  }

  recordPoll(name: string, nowSec: number): void {
    this.seenSec.set(name, nowSec)
  }

  /** Sorted. Includes those in the store, so that a restart of the server does not change the rotation. */
  online(region: Region, vantages: readonly VantageState[], nowSec: number): string[] {
    return vantages
      .filter((vantage) => vantage.region === region)
      .filter(({ name, lastSeenSec }) => {
        return nowSec - Math.max(lastSeenSec ?? 0, this.seenSec.get(name) ?? 0) <= ONLINE_SEC
      })
      .map(({ name }) => name)
      .sort()
  }
}

function assign(region: Region, sites: readonly AgentSite[], optOut: string[]): Assignment {
  const assigned = sites.filter(({ regions }) => regions.includes(region))
  const content = {
    sites: assigned
      .map(({ slug, url, apiBase, extraPort, intervalSec }) => {
        return { slug, url, api_base: apiBase, extra_port: extraPort, interval_s: intervalSec }
      })
      .sort((one, other) => (one.slug < other.slug ? -1 : 1)),
    opt_out: optOut,
  }
  return {
    sha256: hashContent(content),
    content,
    siteIds: new Map(assigned.map(({ slug, siteId }) => [slug, siteId])),
    intervalsSec: new Map(assigned.map(({ siteId, intervalSec }) => [siteId, intervalSec])),
  }
}
