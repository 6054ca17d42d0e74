/**
 * API keys (spec 4.4): `rm_` and 32 random characters of base 62, 190 bits.
 *
 *     create ──► the key, shown once          SHA-256 ──► table api_key
 *     text of a request ── SHA-256 ──► few candidates ── timingSafeEqual on each ──► id and tier, or null
 *
 * A plain hash suffices: 190 random bits have no dictionary. Candidates share the first two bytes of their hash, which an
 * attacker can neither choose nor learn from; all of them are compared, whether or not one matches. Commands change
 * the table from their own process; a running monitor sees it with the next snapshot.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Database } from './database.ts'
import type { StoredApiKey } from './snapshot.ts'

const PREFIX = 'rm_'
const LENGTH = 32
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const KEY = /^rm_[0-9A-Za-z]{32}$/
export const API_KEYS_MAX = 10_000 // not revoked; each takes about 200 bytes of every snapshot

export interface ApiKeyGrant {
  readonly id: string
  readonly tier: string
}

export interface ListedApiKey extends ApiKeyGrant {
  readonly note: string
  readonly createdAtSec: number
  readonly expiresAtSec: number | null
  readonly revokedAtSec: number | null
}

/** Looks up keys. Built anew from each snapshot whose keys changed. */
export class ApiKeys {
  private readonly byPrefix = new Map<number, StoredApiKey[]>()

  constructor(keys: readonly StoredApiKey[]) {
    for (const key of keys) {
      const candidates = this.byPrefix.get(toPrefix(key.hash))
      if (candidates) candidates.push(key)
      else this.byPrefix.set(toPrefix(key.hash), [key])
    }
  }

  /** null: malformed, unknown, revoked or expired; callers respond with 401 in all four cases. */
  verify(text: string, nowSec: number): ApiKeyGrant | null {
    if (!KEY.test(text)) return null
    const hash = hashKey(text)
    let found: StoredApiKey | null = null
    for (const key of this.byPrefix.get(toPrefix(hash)) ?? NONE) {
      if (timingSafeEqual(key.hash, hash)) found = key
    }
    return found && isValid(found, nowSec) ? { id: found.id, tier: found.tier } : null
  }
}

const NONE: StoredApiKey[] = []

/** Creates a key and stores its hash. `text` is the key, which is not stored. */
export function createApiKey(
  database: Database,
  {
    tier,
    note,
    expiresAtSec,
    nowSec,
  }: { tier: string; note: string; expiresAtSec: number | null; nowSec: number },
): { id: string; text: string } {
  const text = PREFIX + randomBase62(LENGTH)
  const id = `k_${randomBase62(10)}`
  database.transaction(() => {
    const { count } = database.get<{ count: number }>(
      'SELECT count(*) AS count FROM api_key WHERE revoked_at IS NULL',
    )!
    if (count >= API_KEYS_MAX) throw tooManyError(count)
    database.run(
      'INSERT INTO api_key (id, hash, tier, note, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)',
      ...[id, hashKey(text), tier, note, nowSec, expiresAtSec],
    )
  })
  return { id, text }
}

/** False when there is no such key, or it was revoked before. */
export function revokeApiKey(database: Database, id: string, nowSec: number): boolean {
  const sql = 'UPDATE api_key SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL'
  return database.run(sql, nowSec, id) === 1
}

/** Everything but the hash, newest first. */
export function listApiKeys(database: Database): ListedApiKey[] {
  return database.all<ListedApiKey>(
    `SELECT id, tier, note, created_at AS createdAtSec, expires_at AS expiresAtSec, revoked_at AS revokedAtSec
     FROM api_key ORDER BY created_at DESC, id`,
  )
}

/** What a snapshot carries: keys that could still be used. */
export function listUsableApiKeys(database: Database): StoredApiKey[] {
  return database.all<StoredApiKey>(
    `SELECT id, hash, tier, expires_at AS expiresAtSec, revoked_at AS revokedAtSec
     FROM api_key WHERE revoked_at IS NULL ORDER BY id LIMIT ${API_KEYS_MAX}`,
  )
}

function isValid(key: StoredApiKey, nowSec: number): boolean {
  return key.revokedAtSec === null && (key.expiresAtSec === null || nowSec < key.expiresAtSec)
}

function tooManyError(count: number): ConfigurationError {
  const what = `there are ${count} API keys, and no more are allowed.`
  return new ConfigurationError({
    code: 'API_KEYS_TOO_MANY',
    what,
    fix: 'Revoke some, then create new ones.',
  })
}

function hashKey(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}

function toPrefix(hash: Uint8Array): number {
  return (hash[0] << 8) | hash[1]
}

/** Characters by chance, 5.95 bits each. */
export function randomBase62(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += ALPHABET[byte % 62] // 248 = 4 × 62, so no character is likelier
    }
  }
  return text
}
