/**
 * Vantages (spec 6.5): places that probe. The server's own is made at its start; agents' come from the command line, with
 * a token of which only the SHA-256 is kept.
 */
import type { Region } from '../facts.ts'
import type { Database } from './database.ts'

export interface VantageInput {
  name: string
  region: Region
  country: string | null
}

/** Makes it, or brings it up to date. A new region counts from now on: earlier probes stay in their buckets. */
export function saveVantage(database: Database, { name, region, country }: VantageInput): number {
  database.run(
    `INSERT INTO vantage (name, region, country) VALUES (?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET country = excluded.country, region = excluded.region`,
    ...[name, region, country],
  )
  return database.get<{ id: number }>('SELECT id FROM vantage WHERE name = ?', name)!.id
}
