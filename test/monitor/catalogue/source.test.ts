import { renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Catalogue } from '../../../monitor/catalogue/load.ts'
import { CatalogueSource } from '../../../monitor/catalogue/source.ts'
import { catalogueOf, folderWith, siteLines } from './catalogues.ts'

const WITHIN = { timeout: 2_000, interval: 20 } // spec 8.1

test('8.1: a change is in force within 2 s; a mistake keeps the old one, is logged and counted', async () => {
  const path = folderWith({ 'catalogue.yaml': catalogueOf(siteLines('one')) })
  const { source, slugs, log } = await watched(path)
  expect(slugs).toEqual([['one']])

  writeFileSync(path, catalogueOf(siteLines('one'), siteLines('two')))
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one', 'two']), WITHIN)

  writeFileSync(path, catalogueOf(siteLines('one'), siteLines('one')))
  await vi.waitFor(() => expect(source.loadErrorsCount).toBe(1), WITHIN)
  expect(source.diagnostics).toEqual([
    expect.stringContaining('catalogue.yaml:6, site "one": slug "one" is taken by catalogue.yaml:3.'),
    expect.stringContaining('catalogue.yaml:8, site "one": https://one.example.com is already probed'),
  ])
  expect(log.slice(-3)).toEqual([
    'error: the catalogue has errors, the old one stays in force:',
    ...source.diagnostics.map((line) => `error: ${line}`),
  ])
  expect(source.catalogue!.entries).toHaveLength(2)

  // Reverted: the diagnostics are gone, and onCatalogue is not called.
  writeFileSync(path, catalogueOf(siteLines('one'), siteLines('two')))
  await vi.waitFor(() => expect(source.diagnostics).toEqual([]), WITHIN)
  expect(slugs).toHaveLength(2)
})

test('8.1: the same bytes written again are no reload', async () => {
  const path = folderWith({ 'catalogue.yaml': catalogueOf(siteLines('one')) })
  const { slugs, log } = await watched(path)
  utimesSync(path, new Date(), new Date(0))
  await wait(1_000)
  expect(slugs).toHaveLength(1)
  expect(log).toEqual(['info: the catalogue has 1 sites'])
})

test('8.1: files of a folder, a swapped link, a replaced file, a file that goes and comes back', async () => {
  const folder = folderWith({ 'a.yaml': catalogueOf(siteLines('one')) }, '')
  const { source, slugs } = await watched(folder)
  writeFileSync(join(folder, 'b.yaml'), catalogueOf(siteLines('two')))
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one', 'two']), WITHIN)

  writeFileSync(join(folder, 'elsewhere'), catalogueOf(siteLines('three')))
  symlinkSync('elsewhere', join(folder, 'link'))
  renameSync(join(folder, 'link'), join(folder, 'b.yaml'))
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one', 'three']), WITHIN)

  renameSync(folder, `${folder}.gone`)
  await vi.waitFor(() => expect(source.diagnostics[0]).toContain('cannot be read'), WITHIN)
  expect(source.catalogue!.entries).toHaveLength(2)
  renameSync(`${folder}.gone`, folder)
  await vi.waitFor(() => expect(source.diagnostics).toEqual([]), WITHIN)
  rmSync(join(folder, 'b.yaml'))
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one']), WITHIN)
})

test('5: an opt-out takes effect within 2 s', async () => {
  const path = folderWith({ 'catalogue.yaml': catalogueOf(siteLines('one'), siteLines('two')) })
  const { slugs, log } = await watched(path)
  writeFileSync(join(dirname(path), 'optout.yaml'), 'version: 1\nhosts:\n  - two.example.com\n')
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one']), WITHIN)
  expect(log).toContain('warning: site two is not probed: its host has opted out')
})

test('5: an opt-out takes effect while the catalogue has errors, and stays after they are corrected', async () => {
  const path = folderWith({ 'catalogue.yaml': catalogueOf(siteLines('one'), siteLines('two')) })
  const optOut = join(dirname(path), 'optout.yaml')
  const { source, slugs, log } = await watched(path)
  writeFileSync(path, 'version: 1\nsites: nonsense\n')
  await vi.waitFor(() => expect(source.loadErrorsCount).toBe(1), WITHIN)
  writeFileSync(optOut, 'version: 1\nhosts:\n  - two.example.com\n')
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one']), WITHIN)
  expect(source.catalogue!.optOut).toEqual(new Set(['two.example.com']))

  writeFileSync(optOut, 'version: 1\nhosts: nonsense\n')
  await vi.waitFor(() => expect(source.loadErrorsCount).toBe(3), WITHIN)
  expect(source.catalogue!.optOut).toEqual(new Set(['two.example.com']))

  writeFileSync(optOut, 'version: 1\nhosts: []\n')
  writeFileSync(path, catalogueOf(siteLines('one'), siteLines('two')))
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one', 'two']), WITHIN)
  expect(log.at(-1)).toBe('warning: the opt-outs of 1 hosts were removed: two.example.com')
})

test('5: opt-outs do not go with their file; an empty list takes them back', async () => {
  const files = { 'catalogue.yaml': catalogueOf(siteLines('one'), siteLines('two')) }
  const path = folderWith({ ...files, 'optout.yaml': 'version: 1\nhosts:\n  - two.example.com\n' })
  const optOut = join(dirname(path), 'optout.yaml')
  const { source, slugs } = await watched(path)
  rmSync(optOut)
  await vi.waitFor(() => expect(source.loadErrorsCount).toBe(1), WITHIN)
  expect(source.diagnostics).toEqual([expect.stringMatching(/optout\.yaml: cannot be read.*hosts: \[\]/)])
  expect(slugs).toEqual([['one']])
  writeFileSync(optOut, 'version: 1\nhosts: []\n')
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual(['one', 'two']), WITHIN)
})

test('8.1: an empty folder is a mistake, as where a volume is not mounted', async () => {
  const folder = folderWith({ 'a.yaml': catalogueOf(siteLines('one')) }, '')
  const { source, slugs } = await watched(folder)
  rmSync(join(folder, 'a.yaml'))
  await vi.waitFor(() => expect(source.diagnostics[0]).toContain('CATALOGUE_EMPTY'), WITHIN)
  expect(slugs).toEqual([['one']])
  writeFileSync(join(folder, 'a.yaml'), 'version: 1\nsites: []\n')
  await vi.waitFor(() => expect(slugs.at(-1)).toEqual([]), WITHIN)
})

test('8.1: nothing there at the start is a mistake, and mended later', async () => {
  const path = folderWith({})
  const { source, slugs, log } = await watched(path)
  expect(source.loadErrorsCount).toBe(1)
  expect(log[0]).toBe('error: the catalogue has errors, none is in force:')
  writeFileSync(path, catalogueOf(siteLines('one')))
  await vi.waitFor(() => expect(slugs).toEqual([['one']]), WITHIN)
})

async function watched(path: string) {
  const log: string[] = []
  const slugs: string[][] = []
  const onCatalogue = ({ entries }: Catalogue) => slugs.push(entries.map(({ slug }) => slug))
  const source = new CatalogueSource({
    path,
    log: (level, text) => log.push(`${level}: ${text}`),
    onCatalogue,
  })
  onTestFinished(() => source.close())
  await source.start()
  return { source, slugs, log }
}
