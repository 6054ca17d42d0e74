/**
 * Vantages (spec 6.5): places that probe. The server's own is created at its start and has no token; agents' are created by
 * the command line.
 *
 *     create ──► the token, shown once          SHA-256 ──► table vantage
 *     revoke ──► the row stays, for the probes that refer to it; creating it again gives it a new token
 */
import { createHash } from 'node:crypto'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Region } from '../facts.ts'
import { randomBase62 } from './api-keys.ts'
import type { Database } from './database.ts'
import type { StoredAgent } from './snapshot.ts'

const TOKEN_PREFIX = 'vt_'
const TOKEN_LENGTH = 32
export const VANTAGES_MAX = 100 // not revoked; each probes every site

export interface VantageInput {
  name: string
  region: Region
  country: string | null
}

export interface ListedVantage extends VantageInput {
  hasToken: boolean // false = a server's own
  lastSeenSec: number | null
  revokedAtSec: number | null
}

/** Creates or updates a vantage. A new region applies from now on: earlier probes stay in their buckets. */
export function saveVantage(database: Database, { name, region, country }: VantageInput): number {
  database.run(
    `INSERT INTO vantage (name, region, country) VALUES (?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET country = excluded.country, region = excluded.region, revoked_at = NULL,
       token_hash = NULL`, // an agent with this name must not act as the server
    ...[name, region, country],
  )
  return database.get<{ id: number }>('SELECT id FROM vantage WHERE name = ?', name)!.id
}

/** Returns the token, which is not stored. */
export function createVantage(database: Database, { name, region, country }: VantageInput): string {
  const token = TOKEN_PREFIX + randomBase62(TOKEN_LENGTH)
  database.transaction(() => {
    const vantages = listVantages(database).filter(({ revokedAtSec }) => revokedAtSec === null)
    if (vantages.some((known) => known.name === name)) throw nameTakenError(name)
    if (vantages.length >= VANTAGES_MAX) throw tooManyError(vantages.length)
    database.run(
      `INSERT INTO vantage (name, region, country, token_hash) VALUES (?, ?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET country = excluded.country, region = excluded.region, revoked_at = NULL,
         token_hash = excluded.token_hash`,
      ...[name, region, country, createHash('sha256').update(token).digest('hex')],
    )
  })
  return token
}

/** False if there is no such vantage or it is already revoked. */
export function revokeVantage(database: Database, name: string, nowSec: number): boolean {
  const sql = 'UPDATE vantage SET revoked_at = ?, token_hash = NULL WHERE name = ? AND revoked_at IS NULL'
  return database.run(sql, nowSec, name) === 1
}

/** Everything but the hash, by name. */
export function listVantages(database: Database): ListedVantage[] {
  const rows = database.all<ListedVantage>(
    `SELECT name, region, country, token_hash IS NOT NULL AS hasToken, last_seen AS lastSeenSec,
     revoked_at AS revokedAtSec FROM vantage ORDER BY name`,
  )
  return rows.map((row) => ({ ...row, hasToken: Boolean(row.hasToken) }))
}

/** The agents of a snapshot: vantages with a valid token. */
export function listAgents(database: Database): StoredAgent[] {
  return database.all<StoredAgent>(
    `SELECT id AS vantageId, name, region, token_hash AS tokenHash FROM vantage
     WHERE token_hash IS NOT NULL AND revoked_at IS NULL ORDER BY name`,
  )
}

function nameTakenError(name: string): ConfigurationError {
  const fix = 'Choose another name, or revoke it first, which ends its token.'
  return new ConfigurationError({
    code: 'VANTAGE_TAKEN',
    where: `vantage "${name}"`,
    what: 'already exists.',
    fix,
  })
}

function tooManyError(count: number): ConfigurationError {
  const what = `there are ${count} vantages, and no more are allowed.`
  return new ConfigurationError({
    code: 'VANTAGES_TOO_MANY',
    what,
    fix: 'Revoke vantages that no longer probe.',
  })
}
