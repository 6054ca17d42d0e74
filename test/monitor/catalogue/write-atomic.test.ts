/** A file that is replaced stays as private as it was; a new one is for owner and group. */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addOptOut } from '../../../monitor/catalogue/opt-out.ts'
import { importSites } from '../../../monitor/catalogue/transfer.ts'
import { copyAtomic, writeAtomic } from '../../../monitor/catalogue/write-atomic.ts'
import { folderWith, siteLines, toCatalogue } from './catalogues.ts'

const NEW = (0o640 & ~process.umask()).toString(8)
const readMode = (path: string) => (statSync(path).mode & 0o777).toString(8)

for (const mode of [0o600, 0o640, 0o644, 0o664]) {
  test(`a file of mode ${mode.toString(8)} keeps it, its owner and its group`, () => {
    const path = join(folderWith({}, ''), 'a.yaml')
    writeFileSync(path, 'old, and longer than the new text')
    chmodSync(path, mode)
    const { uid, gid } = statSync(path)
    writeAtomic(path, 'new')
    expect([readFileSync(path, 'utf8'), readMode(path)]).toEqual(['new', mode.toString(8)])
    expect(statSync(path)).toMatchObject({ uid, gid })
  })
}

test('a new file is not for everybody, and nothing is left beside it', () => {
  const folder = folderWith({}, '')
  writeAtomic(join(folder, 'new.yaml'), 'text')
  expect([readMode(join(folder, 'new.yaml')), readdirSync(folder)]).toEqual([NEW, ['new.yaml']])
  expect(statSync(join(folder, 'new.yaml')).gid).toBe(statSync(folder).gid)
})

test('8.1: an import and an opt-out leave a private catalogue private', () => {
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
  const optOut = path.replace('catalogue.yaml', 'optout.yaml')
  chmodSync(path, 0o600)
  const text = toCatalogue(siteLines('two'))
  importSites({ cataloguePath: path, name: 'in.yaml', text, format: 'yaml', isDryRun: false })
  addOptOut(optOut, 'example.com')
  expect([readFileSync(path, 'utf8').includes('two'), readMode(path), readMode(optOut)]).toEqual([
    true,
    '600',
    NEW,
  ])
})

test('a copy is checked before it replaces the file; a failed check leaves the old file alone', async () => {
  const folder = folderWith({}, '')
  const [source, path] = [join(folder, 'source'), join(folder, 'copy')]
  const readCopy = async (copy: string) => readFileSync(copy, 'utf8')
  writeFileSync(source, 'one', { mode: 0o444 })
  const checked = await copyAtomic(source, path, { newMode: 0o644, check: readCopy })
  expect([checked, readMode(path)]).toEqual(['one', (0o644 & ~process.umask()).toString(8)])
  chmodSync(source, 0o600)
  writeFileSync(source, 'two')
  const refuse = async () => Promise.reject(new Error('refused'))
  await expect(copyAtomic(source, path, { newMode: 0o644, check: refuse })).rejects.toThrow('refused')
  expect([readFileSync(path, 'utf8'), readdirSync(folder)]).toEqual(['one', ['copy', 'source']])
})
