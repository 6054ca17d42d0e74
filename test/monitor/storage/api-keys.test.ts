import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  ApiKeys,
  createApiKey,
  listApiKeys,
  listUsableApiKeys,
  revokeApiKey,
} from '../../../monitor/storage/api-keys.ts'
import type { StoredApiKey } from '../../../monitor/storage/snapshot.ts'
import { freshDatabase, NOW_SEC } from './stores.ts'

const HOUR_SEC = 3_600

test('4.4: a key is rm_ and 32 of base 62; what is kept is its SHA-256, and the key is nowhere in the file', async () => {
  const database = await freshDatabase()
  const { id, text } = createApiKey(database, {
    tier: 'partner',
    note: 'by mail',
    expiresAtSec: null,
    nowSec: NOW_SEC,
  })
  expect(text).toMatch(/^rm_[0-9A-Za-z]{32}$/)
  const [stored] = listUsableApiKeys(database)
  expect(Buffer.from(stored.hash)).toEqual(createHash('sha256').update(text).digest())
  expect(listApiKeys(database)).toEqual([
    { id, tier: 'partner', note: 'by mail', createdAtSec: NOW_SEC, expiresAtSec: null, revokedAtSec: null },
  ])
  database.raw.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  expect(readFileSync(database.path).includes(text.slice(3))).toBe(false)
})

test('4.4: a key is verified until it expires or is revoked', async () => {
  const database = await freshDatabase()
  const options = { tier: 'partner', note: '', nowSec: NOW_SEC }
  const lasting = createApiKey(database, { ...options, expiresAtSec: null })
  const short = createApiKey(database, { ...options, expiresAtSec: NOW_SEC + HOUR_SEC })
  const verify = (text: string, nowSec: number) =>
    new ApiKeys(listUsableApiKeys(database)).verify(text, nowSec)
  expect(verify(lasting.text, NOW_SEC)).toEqual({ id: lasting.id, tier: 'partner' })
  expect(verify(short.text, NOW_SEC + HOUR_SEC - 1)?.id).toBe(short.id)
  expect(verify(short.text, NOW_SEC + HOUR_SEC)).toBeNull()
  expect(revokeApiKey(database, lasting.id, NOW_SEC)).toBe(true)
  expect(revokeApiKey(database, lasting.id, NOW_SEC)).toBe(false)
  expect(verify(lasting.text, NOW_SEC)).toBeNull()
})

test('4.4: anything else is no client', async () => {
  const database = await freshDatabase()
  const { text } = createApiKey(database, { tier: 'partner', note: '', expiresAtSec: null, nowSec: NOW_SEC })
  const keys = new ApiKeys(listUsableApiKeys(database))
  const last = text.at(-1) === 'a' ? 'b' : 'a'
  for (const wrong of [
    '',
    'rm_',
    text.slice(0, -1),
    `${text}a`,
    text.slice(0, -1) + last,
    text.toUpperCase(),
    ` ${text}`,
  ]) {
    expect(keys.verify(wrong, NOW_SEC), wrong).toBeNull()
  }
  expect(keys.verify(text, NOW_SEC)).not.toBeNull()
})

test('4.4: every key that begins alike is compared in full, and only the right one is found', () => {
  const text = `rm_${'x'.repeat(32)}`
  const hash = createHash('sha256').update(text).digest()
  const near = (index: number): StoredApiKey => {
    const other = Buffer.from(hash)
    other[31] ^= index
    return { id: `k${index}`, hash: other, tier: 't', expiresAtSec: null, revokedAtSec: null }
  }
  expect(new ApiKeys([1, 2, 3].map(near)).verify(text, NOW_SEC)).toBeNull()
  expect(new ApiKeys([1, 0, 3].map(near)).verify(text, NOW_SEC)?.id).toBe('k0')
})
