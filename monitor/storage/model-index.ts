/**
 * Which site has which model, for lists that read no disk (spec 3.1 `model=`, 3.6).
 *
 *     names   ['gpt-5.4', 'claude-sonnet-4-6', …]     each model key once, at a fixed place
 *     sites   17 ─► [0 CLAIMED VERIFIED, 1 LISTED]    place and flags: four bytes per model of a site
 *
 * 5,000 sites with 200 models each take 4 MB. It is updated by deltas (model-index-delta.ts) of the sites probed since the
 * last snapshot, so a publication costs what has changed. `with` returns the next index and keeps this one; they share the
 * names, because a name never leaves its place.
 */
const VERIFIED_SEC = 72 * 3_600 // spec 7.1
const CLAIMED_SEC = 7 * 86_400

export const CLAIMED = 1 // by the site itself, at its last full probe
export const VERIFIED = 2
const LISTED = 4 // claimed by the catalogue; does not expire
const FLAGS_BITS = 3

export interface SiteModels {
  readonly entries: Uint32Array // made by packEntry; places are below 2^29
  readonly seenSec: number // of the full probe they are from
}

export interface ModelIndexDelta {
  isWhole: boolean // replaces everything before
  names: string[] // new ones, appended to the existing places
  sites: [siteId: number, models: SiteModels][]
}

export class ModelIndex {
  static readonly NONE = new ModelIndex([], new Map(), new Map())
  readonly names: readonly string[]
  private readonly places: ReadonlyMap<string, number> // of names
  private readonly sites: ReadonlyMap<number, SiteModels>

  private constructor(
    names: readonly string[],
    places: ReadonlyMap<string, number>,
    sites: ReadonlyMap<number, SiteModels>,
  ) {
    this.names = names
    this.places = places
    this.sites = sites
  }

  with(news: ModelIndexDelta): ModelIndex {
    if (!news.isWhole && news.sites.length === 0) return this
    const names = news.isWhole ? [] : (this.names as string[])
    const places = news.isWhole ? new Map<string, number>() : (this.places as Map<string, number>)
    for (const name of news.names) {
      places.set(name, names.length)
      names.push(name)
    }
    const sites = new Map(news.isWhole ? [] : this.sites)
    for (const [id, models] of news.sites) sites.set(id, models)
    return new ModelIndex(names, places, sites)
  }

  /** -1 = no site has it. */
  findModel(key: string): number {
    return this.places.get(key) ?? -1
  }

  has(siteId: number, place: number, nowSec: number): boolean {
    return this.flags(siteId, place, nowSec) !== 0
  }

  /** CLAIMED, VERIFIED or both, as they hold now; 0 = the site has it not. */
  flags(siteId: number, place: number, nowSec: number): number {
    const models = this.sites.get(siteId)
    if (!models || place < 0) return 0
    for (const entry of models.entries) {
      if (entry >>> FLAGS_BITS === place) return unpackFlags(entry, models, nowSec)
    }
    return 0
  }

  /** `flags` are CLAIMED, VERIFIED or both, as they hold now: claims and listings expire. */
  each(siteId: number, nowSec: number, visit: (place: number, flags: number) => void): void {
    const models = this.sites.get(siteId)
    if (!models) return
    for (const entry of models.entries) {
      const flags = unpackFlags(entry, models, nowSec)
      if (flags !== 0) visit(entry >>> FLAGS_BITS, flags)
    }
  }
}

export function packEntry(place: number, isClaimed: boolean, isVerified: boolean, isListed = false): number {
  const flags = (isClaimed ? CLAIMED : 0) + (isVerified ? VERIFIED : 0) + (isListed ? LISTED : 0)
  return (place << FLAGS_BITS) + flags
}

function unpackFlags(entry: number, { seenSec }: SiteModels, nowSec: number): number {
  const isClaimed = (entry & LISTED) !== 0 || ((entry & CLAIMED) !== 0 && seenSec >= nowSec - CLAIMED_SEC)
  const isVerified = (entry & VERIFIED) !== 0 && seenSec >= nowSec - VERIFIED_SEC
  return (isClaimed ? CLAIMED : 0) + (isVerified ? VERIFIED : 0)
}
