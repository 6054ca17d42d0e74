/**
 * Which models a site has, and when each was added or removed (spec 3.2, `/models`).
 *
 *     list of a full probe ──► not present before                 ──► `added`
 *                              present before, not in the list    ──► `removed`; its row stays, with when it was last seen
 *
 * A site's first list is not a change. A list older than the stored one (a delayed result) changes nothing.
 */
import type { Database } from './database.ts'
import type { ModelSighting } from './rows.ts'

const GONE_KEPT_MAX = 5_000 // per site; a site that makes names up loses its oldest ones
const CHANGES_MAX = 200 // per list: beyond, further changes are not listed

interface KnownModel {
  key: string
  id: string
  isHere: number // 1 = claimed or verified
  lastSeenSec: number
}

export function saveModels(
  database: Database,
  siteId: number,
  atSec: number,
  sightings: ModelSighting[],
): void {
  const known = database.all<KnownModel>(
    `SELECT model_key AS key, model_id AS id, claimed OR verified AS isHere, last_seen AS lastSeenSec
     FROM model_seen WHERE site_id = ?`,
    siteId,
  )
  if (known.some(({ lastSeenSec }) => lastSeenSec > atSec)) return
  const isFirst = known.length === 0
  const here = new Set(known.filter(({ isHere }) => isHere).map(({ key }) => key))
  const listed = new Set(sightings.map(({ key }) => key))
  const added = isFirst ? [] : sightings.filter(({ key }) => !here.has(key))
  const removed = known.filter(({ key }) => here.has(key) && !listed.has(key))
  for (const sighting of sightings) saveSighting(database, siteId, atSec, sighting)
  for (const { key } of removed) {
    database.run(
      'UPDATE model_seen SET claimed = 0, verified = 0 WHERE site_id = ? AND model_key = ?',
      siteId,
      key,
    )
  }
  const changes = [
    ...added.map(({ id }) => ['added', id]),
    ...removed.map(({ id }) => ['removed', id]),
  ].slice(0, CHANGES_MAX)
  for (const [change, id] of changes) {
    const sql = 'INSERT INTO model_change (site_id, at, change, model_id) VALUES (?, ?, ?, ?)'
    database.run(sql, siteId, atSec, change, id)
  }
  if (known.length + sightings.length > GONE_KEPT_MAX) deleteOldestGone(database, siteId)
}

function saveSighting(database: Database, siteId: number, atSec: number, sighting: ModelSighting): void {
  database.run(
    `INSERT INTO model_seen (site_id, model_key, model_id, claimed, verified, first_seen, last_seen)
     VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET model_id = excluded.model_id, claimed = excluded.claimed,
       verified = excluded.verified, last_seen = excluded.last_seen`,
    ...[
      siteId,
      sighting.key,
      sighting.id,
      Number(sighting.isClaimed),
      Number(sighting.isVerified),
      atSec,
      atSec,
    ],
  )
}

function deleteOldestGone(database: Database, siteId: number): void {
  database.run(
    `DELETE FROM model_seen WHERE site_id = ? AND model_key IN (SELECT model_key FROM model_seen
     WHERE site_id = ? AND NOT (claimed OR verified) ORDER BY last_seen DESC LIMIT -1 OFFSET ?)`,
    ...[siteId, siteId, GONE_KEPT_MAX],
  )
}
