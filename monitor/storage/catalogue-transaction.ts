/**
 * The catalogue's copy in the database (spec 8.1); the YAML files are authoritative.
 *
 *     slug known                       ──► row updated; listed again if it was removed and its address is the same
 *     slug new, an alias of it known   ──► renamed: the row takes the new slug and keeps its history
 *     slug new                         ──► new row, `first_seen` = today unless the catalogue has a date
 *     row without an entry             ──► removed at once; its data is deleted 90 days later (prune.ts), its slug never
 *
 * A slug that once belonged to another site is refused and reported: slugs are never reused (spec 2.1).
 */
import type { CatalogueSite } from '../facts.ts'
import type { Database } from './database.ts'

export interface SyncResult {
  ids: Record<string, number> // slug → site, for all of the catalogue that was taken
  added: string[]
  renamed: string[]
  removed: string[]
  claimsChanged: number[] // sites whose claimed models are others than before
  refused: { slug: string; why: string }[]
}

export function syncCatalogue(
  database: Database,
  sites: readonly CatalogueSite[],
  nowSec: number,
): SyncResult {
  return database.transaction(() => new CatalogueTransaction(database, sites, nowSec).run())
}

interface KnownSite {
  id: number
  slug: string
  url: string
  apiBase: string
  claims: string | null // JSON
  isRemoved: number
}

class CatalogueTransaction {
  private readonly database: Database
  private readonly sites: readonly CatalogueSite[]
  private readonly nowSec: number
  private readonly known: Map<string, KnownSite> // by slug; renamed ones go
  private readonly formerSlugs: Map<string, number> // → site
  private readonly result: SyncResult = {
    ids: {},
    added: [],
    renamed: [],
    removed: [],
    claimsChanged: [],
    refused: [],
  }

  constructor(database: Database, sites: readonly CatalogueSite[], nowSec: number) {
    this.database = database
    this.sites = sites
    this.nowSec = nowSec
    const rows = database.all<KnownSite>(
      `SELECT id, slug, url, api_base AS apiBase, json_extract(catalogue_json, '$.modelsClaimed') AS claims,
       removed_at IS NOT NULL AS isRemoved FROM site ORDER BY id`,
    )
    this.known = new Map(rows.map((row) => [row.slug, row]))
    const former = database.all<{ alias: string; id: number }>(
      'SELECT alias, site_id AS id FROM alias WHERE was_slug',
    )
    this.formerSlugs = new Map(former.map(({ alias, id }) => [alias, id]))
  }

  run(): SyncResult {
    this.database.run('DELETE FROM alias WHERE NOT was_slug')
    this.database.run('UPDATE alias SET is_listed = 0')
    const slugs = new Set(this.sites.map(({ slug }) => slug))
    for (const site of this.sites) {
      const row = this.known.get(site.slug) ?? this.renamedFrom(site, slugs)
      const why = this.findConflict(site, row)
      if (why) this.result.refused.push({ slug: site.slug, why })
      else this.take(site, row)
    }
    for (const { id, slug, isRemoved } of this.known.values()) {
      if (isRemoved || this.result.ids[slug] === id) continue
      this.database.run('UPDATE site SET removed_at = ? WHERE id = ?', this.nowSec, id)
      this.result.removed.push(slug)
    }
    return this.result
  }

  private renamedFrom(site: CatalogueSite, slugs: Set<string>): KnownSite | undefined {
    const former = site.aliases.find((alias) => this.known.has(alias) && !slugs.has(alias))
    return former === undefined ? undefined : this.known.get(former)
  }

  private findConflict(site: CatalogueSite, row: KnownSite | undefined): string | null {
    const owner = this.formerSlugs.get(site.slug)
    if (owner !== undefined && owner !== row?.id) return 'the slug was that of another site; choose a new one'
    if (!row?.isRemoved || row.url === site.url || row.apiBase === site.apiBase) return null
    return `the slug belongs to ${row.url}, which was removed; choose a new one`
  }

  private take(site: CatalogueSite, row: KnownSite | undefined): void {
    const id = row ? this.update(site, row) : this.insert(site)
    this.result.ids[site.slug] = id
    if (JSON.stringify(site.modelsClaimed) !== (row?.claims ?? '[]')) this.result.claimsChanged.push(id)
    for (const alias of site.aliases) {
      this.database.run(
        `INSERT INTO alias (alias, site_id, is_listed, was_slug) VALUES (?, ?, 1, 0)
         ON CONFLICT DO UPDATE SET site_id = excluded.site_id, is_listed = 1`,
        ...[alias, id],
      )
    }
  }

  private update(site: CatalogueSite, row: KnownSite): number {
    if (row.slug !== site.slug) {
      this.known.delete(row.slug)
      this.result.renamed.push(site.slug)
      this.database.run('DELETE FROM alias WHERE alias = ?', site.slug) // it comes back to a name it had
      this.database.run(
        `INSERT INTO alias (alias, site_id, is_listed, was_slug) VALUES (?, ?, 0, 1)
         ON CONFLICT DO UPDATE SET site_id = excluded.site_id, was_slug = 1`,
        ...[row.slug, row.id],
      )
    }
    this.database.run(
      `UPDATE site SET slug = ?, name = ?, url = ?, api_base = ?, first_seen = coalesce(?, first_seen),
       catalogue_json = ?, removed_at = NULL WHERE id = ?`,
      ...[site.slug, site.name, site.url, site.apiBase, site.firstSeen, JSON.stringify(site), row.id],
    )
    return row.id
  }

  private insert(site: CatalogueSite): number {
    const today = new Date(this.nowSec * 1000).toISOString().slice(0, 10)
    this.database.run(
      'INSERT INTO site (slug, name, url, api_base, first_seen, catalogue_json) VALUES (?, ?, ?, ?, ?, ?)',
      ...[site.slug, site.name, site.url, site.apiBase, site.firstSeen ?? today, JSON.stringify(site)],
    )
    this.result.added.push(site.slug)
    return this.database.get<{ id: number }>('SELECT id FROM site WHERE slug = ?', site.slug)!.id
  }
}
