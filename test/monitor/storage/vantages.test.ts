import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  createVantage,
  listVantages,
  revokeVantage,
  saveVantage,
  VANTAGES_MAX,
} from '../../../monitor/storage/vantages.ts'
import { freshDatabase, NOW_SEC } from './stores.ts'

const BEIJING = { name: 'bj1', region: 'cn', country: 'CN' } as const
const MAIN = { name: 'main', region: 'overseas', country: null } as const

test("6.5: an agent's token is by chance, and nowhere in the file", async () => {
  const database = await freshDatabase()
  const token = createVantage(database, BEIJING)
  expect(token).toMatch(/^vt_[0-9A-Za-z]{32}$/)
  database.raw.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  expect(readFileSync(database.path).includes(token.slice(3))).toBe(false)
  expect(listVantages(database)).toEqual([
    { ...BEIJING, hasToken: true, lastSeenSec: null, revokedAtSec: null },
  ])
})

test('6.5: a revoked vantage keeps its row, and its id when its name is used again', async () => {
  const database = await freshDatabase()
  const getId = () => database.get<{ id: number }>("SELECT id FROM vantage WHERE name = 'bj1'")!.id
  createVantage(database, BEIJING)
  const id = getId()
  expect(() => createVantage(database, BEIJING)).toThrow('vantage "bj1": already exists.')
  expect(revokeVantage(database, 'bj1', NOW_SEC)).toBe(true)
  expect(revokeVantage(database, 'bj1', NOW_SEC)).toBe(false)
  expect(revokeVantage(database, 'sh1', NOW_SEC)).toBe(false)
  expect(listVantages(database)).toEqual([
    { ...BEIJING, hasToken: false, lastSeenSec: null, revokedAtSec: NOW_SEC },
  ])
  createVantage(database, { ...BEIJING, region: 'overseas', country: null })
  expect(getId()).toBe(id)
  expect(listVantages(database)).toMatchObject([
    { region: 'overseas', country: null, hasToken: true, revokedAtSec: null },
  ])
})

test("6.5: a server that takes an agent's name ends the agent's token, and is not revoked", async () => {
  const database = await freshDatabase()
  createVantage(database, { ...MAIN, region: 'cn' })
  saveVantage(database, MAIN)
  expect(listVantages(database)).toEqual([
    { ...MAIN, hasToken: false, lastSeenSec: null, revokedAtSec: null },
  ])
  revokeVantage(database, 'main', NOW_SEC)
  saveVantage(database, MAIN)
  expect(listVantages(database)).toMatchObject([{ revokedAtSec: null }])
})

test('6.5: their number is bounded, and revoked ones do not count', async () => {
  const database = await freshDatabase()
  for (let i = 0; i < VANTAGES_MAX; i++) createVantage(database, { ...BEIJING, name: `v${i}` })
  expect(() => createVantage(database, BEIJING)).toThrow(
    /^there are 100 vantages, .*Revoke vantages .*VANTAGES_TOO_MANY/,
  )
  revokeVantage(database, 'v7', NOW_SEC)
  createVantage(database, BEIJING)
})
