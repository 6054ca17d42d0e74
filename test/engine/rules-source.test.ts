/**
 * Rules from files while their directories come and go (spec 8.4): what the operator reads of it.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { FileRulesSource } from '../../engine/rules-source.ts'
import { parseSettings } from '../../engine/settings/parse.ts'
import { Totals } from '../../engine/stats/totals.ts'

const RETRIES_MS = 2_500 // more than two tries to watch again
const SHOP = 'domain: shop\n'

/** A source that watches the root, started; `counts` has the domains of each load. */
async function watching(root: string) {
  const { settings } = parseSettings({ RUNTIME_ROOT: root })
  const lines: string[] = []
  const counts: number[] = []
  const source = new FileRulesSource({
    settings,
    totals: new Totals(),
    log: (level, message) => lines.push(`${level} ${message}`),
    onRules: (rules) => counts.push(rules.domainsCount),
  })
  onTestFinished(() => source.close())
  await source.start()
  const warnings = () => lines.filter((line) => line.startsWith('warning '))
  return { counts, warnings }
}

function newRoot(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-rules-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data', 'current')
}

function write(root: string): void {
  mkdirSync(join(root, 'config'), { recursive: true })
  writeFileSync(join(root, 'config', 'shop.yaml'), SHOP)
}

test('8.4, 11.1: a folder that cannot be watched any more is told once, and nothing loads until it is back', async () => {
  const root = newRoot()
  mkdirSync(root, { recursive: true })
  const { counts, warnings } = await watching(root)
  rmSync(dirname(root), { recursive: true })
  await expect.poll(warnings, { timeout: 5_000 }).not.toEqual([])
  await sleep(RETRIES_MS)
  const told = warnings().filter((line) => !line.includes('runtime: error reading')) // that is the load of the change
  expect(told).toEqual([
    expect.stringContaining(`unable to watch file (${dirname(root)}): no such directory.`),
  ])
  expect(counts.length).toBeLessThanOrEqual(2) // the first load, and that of the change
  write(root)
  await expect.poll(() => counts.at(-1), { timeout: 5_000 }).toBe(1)
  writeFileSync(join(root, 'config', 'mail.yaml'), 'domain: mail\n') // it is watched again
  await expect.poll(() => counts.at(-1), { timeout: 5_000 }).toBe(2)
})

test('8.4, 11.1: rules that are gone are told once, whatever else happens meanwhile', async () => {
  const root = newRoot()
  write(root)
  const { counts, warnings } = await watching(root)
  renameSync(root, `${root}2`)
  await expect.poll(warnings, { timeout: 5_000 }).not.toEqual([])
  mkdirSync(root) // still without rules
  await sleep(500)
  expect(warnings()).toEqual([expect.stringContaining('is gone: its rules stay in force')])
  rmSync(root, { recursive: true })
  renameSync(`${root}2`, root)
  const before = counts.length
  await expect.poll(() => counts.length, { timeout: 5_000 }).toBeGreaterThan(before)
  expect(counts.at(-1)).toBe(1)
})

test('8.4#5: a new link renamed over RUNTIME_ROOT loads what it points to', async () => {
  const root = newRoot()
  const versions = dirname(root)
  write(join(versions, 'v1'))
  symlinkSync('v1', root)
  const { counts } = await watching(root)
  write(join(versions, 'v2'))
  writeFileSync(join(versions, 'v2/config/mail.yaml'), 'domain: mail\n')
  symlinkSync('v2', join(versions, 'next'))
  renameSync(join(versions, 'next'), root)
  await expect.poll(() => counts.at(-1), { timeout: 10_000 }).toBe(2)
})
