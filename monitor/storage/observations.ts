/** The rows that decide which models a site has now (spec 7.1). */
import type { Observation } from '../facts.ts'
import { fromObservationRow } from './apply.ts'
import type { Database } from './database.ts'

/** The newest full probe with a listing response; others are no evidence about models (spec 7.1). */
export function readAnswered(database: Database, siteId: number): Observation | null {
  const row = database.get(
    `SELECT * FROM observation WHERE site_id = ? AND 
     (json_extract(profile_json, '$.listing') <> 'absent' OR verified_json <> 'null') ORDER BY at DESC LIMIT 1`,
    siteId,
  )
  return row ? fromObservationRow(row) : null
}

/** The models that the catalogue claims for this site. */
export function readClaims(database: Database, siteId: number): string[] {
  const sql = "SELECT json_extract(catalogue_json, '$.modelsClaimed') AS claims FROM site WHERE id = ?"
  return JSON.parse(database.get<{ claims: string | null }>(sql, siteId)?.claims ?? '[]')
}
