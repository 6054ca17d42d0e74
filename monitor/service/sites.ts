/** From the catalogue to what a prober needs, and from what it saw of models to what the store keeps. */
import type { CatalogueSite, Observation, Region } from '../facts.ts'
import type { ProberSite } from '../prober/messages.ts'
import { compareModels, isAnswered, modelKey } from '../scoring/models.ts'
import type { SiteProbeState } from '../storage/reader.ts'
import type { ModelSighting } from '../storage/rows.ts'

export interface SitesContext {
  ids: Readonly<Record<string, number>> // slug → site; without those the store has refused
  probeStates: ReadonlyMap<number, SiteProbeState>
  ports: readonly number[] // PROBE_PORTS
  folder: string // the catalogue's: key files are below it
}

export function proberSites(
  sites: readonly CatalogueSite[],
  { ids, probeStates: looks, ports, folder }: SitesContext,
): (ProberSite & { regions: readonly Region[] })[] {
  return sites.flatMap(({ slug, url, apiBase, keyFile, intervalSec, regions }) => {
    const siteId = ids[slug]
    if (siteId === undefined) return []
    const look = looks.get(siteId)
    return {
      ...{ siteId, slug, url, apiBase, intervalSec, regions },
      extraPort: findExtraPort([apiBase, url], ports),
      keyFile: keyFile === null ? null : { folder, name: keyFile },
      lastFullSec: look?.lastFullSec ?? null,
      addresses: look?.addresses ?? [],
      downs: look?.downs ?? 0,
      downSinceSec: look?.downSinceSec ?? null,
    }
  })
}

/** The one port beyond the general ones that an entry may name (spec 5.1). */
function findExtraPort(urls: readonly string[], ports: readonly number[]): number | null {
  const named = urls
    .map((url) => Number(new URL(url).port))
    .filter((port) => port > 0 && !ports.includes(port))
  return named[0] ?? null
}

/**
 * The models of one full probe, each once; what the catalogue claims is read beside them. Null: its listing was no answer,
 * so it says nothing about models (spec 7.1).
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
