import { renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Catalogue } from '../../../monitor/catalogue/load.ts'
import { CatalogueSource, POLL_MS } from '../../../monitor/catalogue/source.ts'
import { eventually } from '../../helpers/eventually.ts'
import { folderWith, siteLines, toCatalogue } from './catalogues.ts'

const FAST_POLL_MS = 20

test('8.1: a change takes effect; a mistake keeps the old catalogue, is logged and counted', async () => {
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
  const { source, slugs, log } = await watch(path)
  expect(slugs).toEqual([['one']])

  writeFileSync(path, toCatalogue(siteLines('one'), siteLines('two')))
  await eventually(() => expect(slugs.at(-1)).toEqual(['one', 'two']))

  writeFileSync(path, toCatalogue(siteLines('one'), siteLines('one')))
  await eventually(() => expect(source.loadErrorsCount).toBe(1))
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
  writeFileSync(path, toCatalogue(siteLines('one'), siteLines('two')))
  await eventually(() => expect(source.diagnostics).toEqual([]))
  expect(slugs).toHaveLength(2)
})

test('8.1: the default period leaves most of the 2 s to the load', async () => {
  expect(2 * POLL_MS).toBeLessThanOrEqual(500)
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
  const { slugs } = await watch(path, {})
  writeFileSync(path, toCatalogue(siteLines('one'), siteLines('two')))
  await eventually(() => expect(slugs.at(-1)).toEqual(['one', 'two']))
})

test('8.1: the same bytes written again are no reload', async () => {
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
  const { source, slugs, log } = await watch(path)
  const loads = vi.spyOn(source as never, 'apply')
  utimesSync(path, new Date(), new Date(0))
  await eventually(() => expect(loads).toHaveBeenCalledTimes(1))
  expect(slugs).toHaveLength(1)
  expect(log).toEqual(['info: the catalogue has 1 sites'])
})

test('8.1: a folder: a new file, a replaced link, the folder removed and restored, a removed file', async () => {
  const folder = folderWith({ 'a.yaml': toCatalogue(siteLines('one')) }, '')
  const { source, slugs } = await watch(folder)
  writeFileSync(join(folder, 'b.yaml'), toCatalogue(siteLines('two')))
  await eventually(() => expect(slugs.at(-1)).toEqual(['one', 'two']))

  writeFileSync(join(folder, 'elsewhere'), toCatalogue(siteLines('three')))
  symlinkSync('elsewhere', join(folder, 'link'))
  renameSync(join(folder, 'link'), join(folder, 'b.yaml'))
  await eventually(() => expect(slugs.at(-1)).toEqual(['one', 'three']))

  renameSync(folder, `${folder}.gone`)
  await eventually(() => expect(source.diagnostics[0]).toContain('cannot be read'))
  expect(source.catalogue!.entries).toHaveLength(2)
  renameSync(`${folder}.gone`, folder)
  await eventually(() => expect(source.diagnostics).toEqual([]))
  rmSync(join(folder, 'b.yaml'))
  await eventually(() => expect(slugs.at(-1)).toEqual(['one']))
})

test('5: an opt-out takes effect', async () => {
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one'), siteLines('two')) })
  const { slugs, log } = await watch(path)
  writeFileSync(join(dirname(path), 'optout.yaml'), 'version: 1\nhosts:\n  - two.example.com\n')
  await eventually(() => expect(slugs.at(-1)).toEqual(['one']))
  expect(log).toContain('warning: site two is not probed: its host has opted out')
})

test('5: an opt-out takes effect while the catalogue has errors, and stays after they are corrected', async () => {
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one'), siteLines('two')) })
  const optOut = join(dirname(path), 'optout.yaml')
  const { source, slugs, log } = await watch(path)
  writeFileSync(path, 'version: 1\nsites: nonsense\n')
  await eventually(() => expect(source.loadErrorsCount).toBe(1))
  writeFileSync(optOut, 'version: 1\nhosts:\n  - two.example.com\n')
  await eventually(() => expect(slugs.at(-1)).toEqual(['one']))
  expect(source.catalogue!.optOut).toEqual(new Set(['two.example.com']))

  writeFileSync(optOut, 'version: 1\nhosts: nonsense\n')
  await eventually(() => expect(source.loadErrorsCount).toBe(3))
  expect(source.catalogue!.optOut).toEqual(new Set(['two.example.com']))

  writeFileSync(optOut, 'version: 1\nhosts: []\n')
  writeFileSync(path, toCatalogue(siteLines('one'), siteLines('two')))
  await eventually(() => expect(slugs.at(-1)).toEqual(['one', 'two']))
  expect(log.at(-1)).toBe('warning: the opt-outs of 1 hosts were removed: two.example.com')
})

test('5: opt-outs stay when their file is removed; an empty list removes them', async () => {
  const files = { 'catalogue.yaml': toCatalogue(siteLines('one'), siteLines('two')) }
  const path = folderWith({ ...files, 'optout.yaml': 'version: 1\nhosts:\n  - two.example.com\n' })
  const optOut = join(dirname(path), 'optout.yaml')
  const { source, slugs } = await watch(path)
  rmSync(optOut)
  await eventually(() => expect(source.loadErrorsCount).toBe(1))
  expect(source.diagnostics).toEqual([expect.stringMatching(/optout\.yaml: cannot be read.*hosts: \[\]/)])
  expect(slugs).toEqual([['one']])
  writeFileSync(optOut, 'version: 1\nhosts: []\n')
  await eventually(() => expect(slugs.at(-1)).toEqual(['one', 'two']))
})

test('8.1: an empty folder is a mistake: a volume may not be mounted', async () => {
  const folder = folderWith({ 'a.yaml': toCatalogue(siteLines('one')) }, '')
  const { source, slugs } = await watch(folder)
  rmSync(join(folder, 'a.yaml'))
  await eventually(() => expect(source.diagnostics[0]).toContain('CATALOGUE_EMPTY'))
  expect(slugs).toEqual([['one']])
  writeFileSync(join(folder, 'a.yaml'), 'version: 1\nsites: []\n')
  await eventually(() => expect(slugs.at(-1)).toEqual([]))
})

test('8.1: a missing file at the start is a mistake, which a later file corrects', async () => {
  const path = folderWith({})
  const { source, slugs, log } = await watch(path)
  expect(source.loadErrorsCount).toBe(1)
  expect(log[0]).toBe('error: the catalogue has errors, none is in force:')
  writeFileSync(path, toCatalogue(siteLines('one')))
  await eventually(() => expect(slugs).toEqual([['one']]))
})

async function watch(path: string, options: { pollMs?: number } = { pollMs: FAST_POLL_MS }) {
  const log: string[] = []
  const slugs: string[][] = []
  const onCatalogue = ({ entries }: Catalogue) => slugs.push(entries.map(({ slug }) => slug))
  const source = new CatalogueSource({
    path,
    ...options,
    log: (level, text) => log.push(`${level}: ${text}`),
    onCatalogue,
  })
  onTestFinished(() => source.close())
  await source.start()
  return { source, slugs, log }
}
