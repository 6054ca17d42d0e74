/** `sluice monitor keys` and `vantage` (monitor spec 4.4, 6.5): created, printed once, revoked. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ApiKeys, listUsableApiKeys } from '../../../../monitor/storage/api-keys.ts'
import { readSnapshot } from '../../../../monitor/storage/publish.ts'
import { openStore } from '../../../../monitor/storage/store.ts'
import { saveVantage } from '../../../../monitor/storage/vantages.ts'
import { type MonitorCommand, monitorIn } from './command.ts'

const DAY_SEC = 86_400

test('4.4: keys create prints only the key; it is valid until it expires', async () => {
  const monitor = monitorIn()
  const startSec = Math.floor(Date.now() / 1_000)
  const { code, out, err } = await monitor.run('keys', 'create', '--note', 'Ann, by mail', '--expires', '90d')
  expect(code).toBe(0)
  expect(out).toMatch(/^rm_[0-9A-Za-z]{32}\n$/)
  expect(err).toMatch(/^key k_\w{10}, tier partner, expires .*Z\. This is the only copy of it:\n$/)
  const database = await monitor.openDatabase()
  const verify = (nowSec: number) => new ApiKeys(listUsableApiKeys(database)).verify(out.trim(), nowSec)
  const id = /k_\w+/.exec(err)![0]
  expect(verify(startSec + 90 * DAY_SEC - 60)).toEqual({ id, tier: 'partner' })
  expect(verify(startSec + 90 * DAY_SEC + 60)).toBeNull()
  const { out: table } = await monitor.run('keys', 'list')
  const [headings, row] = table.split('\n')
  expect(headings).toMatch(/^ID +TIER +STATE +CREATED +EXPIRES +REVOKED +NOTE$/)
  expect(row).toMatch(new RegExp(`^${id} +partner +valid +\\S+Z +\\S+Z +- +Ann, by mail$`))
  expect(table).not.toContain(out.trim().slice(3))
})

const GOLD = `domain: relay_monitor
descriptors:
  - key: class
    value: key_read
    descriptors:
      - { key: tier, value: gold, descriptors: [{ key: key, rate_limit: { unit: minute, requests_per_unit: 9 } }] }
  - key: class
    value: key_submit
    descriptors:
      - { key: tier, value: gold, descriptors: [{ key: key, rate_limit: { unlimited: true } }] }
`

/** Gives a monitor of `monitorIn` these rules. */
function writeRules(monitor: MonitorCommand, rules: string): void {
  monitor.env.RUNTIME_ROOT = join(monitor.folder, 'runtime')
  mkdirSync(join(monitor.folder, 'runtime', 'config'), { recursive: true })
  writeFileSync(join(monitor.folder, 'runtime', 'config', 'monitor.yaml'), rules)
}

test('4.4: keys create --json; a tier without a rule is refused unless --force is given', async () => {
  const monitor = monitorIn()
  const gold = ['keys', 'create', '--tier', 'gold', '--expires', '2030-01-31', '--json']
  const refused = await monitor.run(...gold)
  expect({ code: refused.code, out: refused.out }).toEqual({ code: 1, out: '' })
  expect(refused.err).toMatch(
    /^sluice: tier "gold": no rule of the domain relay_monitor applies to it \(key_read and key_submit\), so its keys have no limit\. .* --force\. \[KEY_UNLIMITED\]\n$/,
  )
  expect(existsSync(monitor.path)).toBe(false) // nothing was created
  const { code, out, err } = await monitor.run(...gold, '--force')
  expect(code).toBe(0)
  expect(JSON.parse(out)).toEqual({
    id: expect.stringMatching(/^k_/),
    key: expect.stringMatching(/^rm_/),
    tier: 'gold',
    expires_at: '2030-01-31T00:00:00Z',
  })
  expect(err).toContain('note: tier gold: no rule of the domain relay_monitor applies to it')
})

test('4.4: keys create checks the rules of the environment', async () => {
  const monitor = monitorIn()
  writeRules(monitor, GOLD)
  expect(await monitor.run('keys', 'create', '--tier', 'gold')).toMatchObject({ code: 0 })
  const partner = await monitor.run('keys', 'create') // these rules replace the built-in ones
  expect([partner.code, partner.err]).toEqual([1, expect.stringContaining('KEY_UNLIMITED')])
  writeRules(monitor, GOLD.replace('key_submit', 'other'))
  expect((await monitor.run('keys', 'create', '--tier', 'gold')).err).toContain(
    'applies to it (key_submit), so',
  )
  writeRules(monitor, 'domain: else\n')
  expect(await monitor.run('keys', 'create')).toMatchObject({ code: 0 })
  writeRules(monitor, 'domain: relay_monitor\nnonsense: 1\n')
  expect((await monitor.run('keys', 'create')).err).toMatch(
    /tier "partner": cannot check whether its keys have a limit: its rules cannot be loaded \(.*nonsense.*KEY_UNLIMITED\]\n$/,
  )
})

test('4.4: keys revoke: takes effect at once, may be repeated, refuses an unknown id', async () => {
  const monitor = monitorIn()
  const created = JSON.parse((await monitor.run('keys', 'create', '--json')).out)
  expect(await monitor.run('keys', 'revoke', created.id)).toEqual({
    code: 0,
    out: '',
    err: `key ${created.id} is revoked\n`,
  })
  const database = await monitor.openDatabase()
  expect(listUsableApiKeys(database)).toEqual([])
  const again = await monitor.run('keys', 'revoke', created.id)
  expect(again).toEqual({ code: 0, out: '', err: `key ${created.id} had been revoked before\n` })
  const [listed] = JSON.parse((await monitor.run('keys', 'list', '--json')).out)
  expect(listed).toEqual({
    ...{ id: created.id, tier: 'partner', state: 'revoked', note: '', expires_at: null },
    created_at: expect.stringMatching(/Z$/),
    revoked_at: expect.stringMatching(/Z$/),
  })
  const unknown = await monitor.run('keys', 'revoke', 'k_unknown')
  expect(unknown.code).toBe(1)
  expect(unknown.err).toMatch(
    /there is no key with the id "k_unknown"\. sluice monitor keys list .*\[KEY_UNKNOWN\]\n$/,
  )
})

test('without a database, commands that only read fail and create none', async () => {
  const monitor = monitorIn()
  for (const args of [
    ['keys', 'list'],
    ['vantage', 'list'],
    ['prune'],
    ['recompute'],
    ['backup', 'b.sqlite'],
  ]) {
    const { code, out, err } = await monitor.run(...args)
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toMatch(
      /^sluice: .*monitor\.sqlite: there is no database yet; .*MONITOR_DATA_DIR\. \[STORE_MISSING\]\n$/,
    )
  }
})

test('4.4: as processes: a running monitor, which has the same file open, applies changes of keys and vantages', async () => {
  const monitor = monitorIn()
  let nowSec = Math.floor(Date.now() / 1_000)
  const store = await openStore({ path: monitor.path, log: () => {} })
  try {
    await store.tick(nowSec)
    const [key, vantage] = await Promise.all([
      monitor.spawn('keys', 'create'),
      monitor.spawn('vantage', 'create', 'bj1', '--region', 'cn'),
    ])
    expect([key.code, vantage.code]).toEqual([0, 0])
    nowSec += 5
    await store.tick(nowSec)
    expect(new ApiKeys(store.snapshot.apiKeys).verify(key.out.trim(), nowSec)?.tier).toBe('partner')
    expect(store.snapshot.vantages.map(({ name }) => name)).toEqual(['bj1'])
    expect((await monitor.run('vantage', 'revoke', 'bj1')).code).toBe(0)
    await store.tick(nowSec + 5)
    expect(store.snapshot.vantages).toEqual([])
  } finally {
    await store.close()
  }
})

test('6.5: vantage create prints only the token and stores its SHA-256', async () => {
  const monitor = monitorIn()
  const created = await monitor.run('vantage', 'create', 'bj1', '--region', 'cn', '--country', 'CN')
  expect(created.code).toBe(0)
  expect(created.out).toMatch(/^vt_[0-9A-Za-z]{32}\n$/)
  expect(created.err).toBe('vantage bj1, cn, CN. This is the only copy of its token:\n')
  const database = await monitor.openDatabase()
  const row = database.get<{ token_hash: string }>("SELECT token_hash FROM vantage WHERE name = 'bj1'")!
  expect(row.token_hash).toBe(createHash('sha256').update(created.out.trim()).digest('hex'))
  const table = (await monitor.run('vantage', 'list')).out
  expect(table).toBe(
    'NAME  STATE  REGION  COUNTRY  LAST SEEN  REVOKED\nbj1   agent  cn      CN       -          -\n',
  )
})

test('6.5: a revoked vantage can be created again, with another token', async () => {
  const monitor = monitorIn()
  const create = () => monitor.run('vantage', 'create', 'bj1', '--region', 'cn', '--json')
  const first = JSON.parse((await create()).out)
  expect(first).toEqual({ name: 'bj1', region: 'cn', country: null, token: expect.stringMatching(/^vt_/) })
  const taken = await create()
  expect(taken.code).toBe(1)
  expect(taken.err).toMatch(
    /^sluice: vantage "bj1": already exists\. .*revoke it first.*\[VANTAGE_TAKEN\]\n$/,
  )
  expect(await monitor.run('vantage', 'revoke', 'bj1')).toMatchObject({
    code: 0,
    err: 'vantage bj1 is revoked\n',
  })
  const again = await monitor.run('vantage', 'revoke', 'bj1')
  expect(again).toMatchObject({ code: 0, err: 'vantage bj1 had been revoked before\n' })
  const [listed] = JSON.parse((await monitor.run('vantage', 'list', '--json')).out)
  expect(listed).toMatchObject({ name: 'bj1', state: 'revoked', revoked_at: expect.stringMatching(/Z$/) })
  const second = JSON.parse((await create()).out)
  expect(second.token).not.toBe(first.token)
  const unknown = await monitor.run('vantage', 'revoke', 'sh1')
  expect(unknown.code).toBe(1)
  expect(unknown.err).toContain('there is no vantage "sh1".')
})

test("6.5: the server's own vantage gets no token and cannot be revoked", async () => {
  const monitor = monitorIn({}, { VANTAGE_NAME: 'fra1' })
  const database = await monitor.openDatabase()
  saveVantage(database, { name: 'fra1', region: 'overseas', country: 'DE' })
  for (const args of [
    ['create', 'fra1', '--region', 'cn'],
    ['revoke', 'fra1'],
  ]) {
    const { code, err } = await monitor.run('vantage', ...args)
    expect(code).toBe(1)
    expect(err).toMatch(/^sluice: vantage "fra1": is the server itself \(VANTAGE_NAME\) .*\[VANTAGE_OWN\]\n$/)
  }
  expect(readSnapshot(database, 1, 0).vantages.map(({ name }) => name)).toEqual(['fra1'])
  expect((await monitor.run('vantage', 'list')).out).toContain('\nfra1  own    overseas  DE ')
})
