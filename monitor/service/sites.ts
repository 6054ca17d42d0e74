/** Converts catalogue sites to the prober's form, and observed models to the store's. */
import type { CatalogueSite, Observation, Region } from '../facts.ts'
import type { ProberSite } from '../prober/messages.ts'
import { compareModels, isAnswered, modelKey } from '../scoring/models.ts'
import type { SiteProbeState } from '../storage/reader.ts'
import type { ModelSighting } from '../storage/rows.ts'

export interface SitesContext {
  ids: Readonly<Record<string, number>> // slug → site id; without the sites that the store refused
  probeStates: ReadonlyMap<number, SiteProbeState>
  ports: readonly number[] // PROBE_PORTS
  folder: string // of the catalogue; key files are below it
}

/** A site to probe, and what else the service needs of it. */
export interface PlacedSite extends ProberSite {
  regions: readonly Region[]
  hasScreenshot: boolean // false also for a hidden site
}

export function proberSites(
  sites: readonly CatalogueSite[],
  { ids, probeStates, ports, folder }: SitesContext,
): PlacedSite[] {
  return sites.flatMap(({ slug, url, apiBase, keyFile, intervalSec, regions, hasScreenshot, isHidden }) => {
    const siteId = ids[slug]
    if (siteId === undefined) return []
    const state = probeStates.get(siteId)
    return {
      ...{ siteId, slug, url, apiBase, intervalSec, regions, hasScreenshot: hasScreenshot && !isHidden },
      extraPort: findExtraPort([apiBase, url], ports),
      keyFile: keyFile === null ? null : { folder, name: keyFile },
      lastFullSec: state?.lastFullSec ?? null,
      addresses: state?.addresses ?? [],
      downs: state?.downs ?? 0,
      downSinceSec: state?.downSinceSec ?? null,
    }
  })
}

/** The one port outside PROBE_PORTS that an entry may name (spec 5.1). */
function findExtraPort(urls: readonly string[], ports: readonly number[]): number | null {
  const named = urls
    .map((url) => Number(new URL(url).port))
    .filter((port) => port > 0 && !ports.includes(port))
  return named[0] ?? null
}

/**
 * The models of one full probe, each once, claimed or verified. Null when the listing got no response: the probe shows
 * nothing about models then (spec 7.1).
 */
export function toSightings(observation: Observation): ModelSighting[] | null {
  if (!isAnswered(observation)) return null
  const { claimed, verified } = compareModels([], observation, observation.atSec)
  const sightings = new Map<string, ModelSighting>()
  for (const id of claimed)
    sightings.set(modelKey(id), { key: modelKey(id), id, isClaimed: true, isVerified: false })
  for (const id of verified) {
    const key = modelKey(id)
    sightings.set(key, { key, id, isClaimed: sightings.has(key), isVerified: true })
  }
  return [...sightings.values()]
}
