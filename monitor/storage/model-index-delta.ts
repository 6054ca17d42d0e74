/**
 * What changed in the index of models (model-index.ts) since the last snapshot, read from the rows.
 *
 *     observation written, claims of the catalogue changed ──► site is touched ──┐
 *     start ──► all sites ───────────────────────────────────────────────────────┴─► read() ──► entries, new names
 *
 * About 0.1 ms per site with 200 models; a second, once, for 5,000 sites.
 */
import { modelKey } from '../scoring/models.ts'
import type { Database } from './database.ts'
import { type ModelIndexDelta, packEntry, type SiteModels } from './model-index.ts'
import { readClaims } from './observations.ts'

const SITE_MODELS_MAX = 1_000 // of one site; listed ones come first, the rest is not indexed
const NAMES_MAX = 100_000 // of all sites since the start; later names are not indexed until the next start

export class ModelReader {
  private readonly database: Database
  private readonly namesMax: number
  private readonly places = new Map<string, number>()
  private readonly touched = new Set<number>()
  private sentCount = 0 // names sent so far
  private isFirst = true

  constructor(database: Database, namesMax = NAMES_MAX) {
    this.database = database
    this.namesMax = namesMax
  }

  touch(siteId: number): void {
    this.touched.add(siteId) // bounded by the number of sites
  }

  read(): ModelIndexDelta {
    const isWhole = this.isFirst
    const ids = isWhole ? this.allSites() : [...this.touched]
    const sites = ids.map((id): [number, SiteModels] => [id, this.siteModels(id)])
    const names = [...this.places.keys()].slice(this.sentCount)
    this.isFirst = false // only here: a failure above is retried with the next snapshot
    this.touched.clear()
    this.sentCount = this.places.size
    return { isWhole, names, sites }
  }

  private allSites(): number[] {
    return this.database.all<{ id: number }>('SELECT id FROM site ORDER BY id').map(({ id }) => id)
  }

  private siteModels(siteId: number): SiteModels {
    const rows = this.database.all<{ key: string; claimed: number; verified: number; seenSec: number }>(
      `SELECT model_key AS key, claimed, verified, last_seen AS seenSec FROM model_seen
       WHERE site_id = ? AND (claimed OR verified) ORDER BY verified DESC, model_key LIMIT ${SITE_MODELS_MAX}`,
      siteId,
    )
    const listed = new Set(readClaims(this.database, siteId).map(modelKey))
    const seen = rows.map(({ key, claimed, verified }) => {
      return { key, isClaimed: claimed === 1, isVerified: verified === 1, isListed: listed.delete(key) }
    })
    const unseen = [...listed].map((key) => ({ key, isClaimed: false, isVerified: false, isListed: true }))
    const all = [...seen, ...unseen].slice(0, SITE_MODELS_MAX)
    const entries = all.flatMap(({ key, isClaimed, isVerified, isListed }) => {
      const place = this.getModelIndex(key)
      return place < 0 ? [] : [packEntry(place, isClaimed, isVerified, isListed)]
    })
    const seenSec = rows.reduce((latest, row) => Math.max(latest, row.seenSec), 0)
    return { entries: Uint32Array.from(entries), seenSec }
  }

  private getModelIndex(key: string): number {
    const known = this.places.get(key)
    if (known !== undefined) return known
    if (this.places.size >= this.namesMax) return -1
    this.places.set(key, this.places.size)
    return this.places.size - 1
  }
}
