/** Which files of the machine a catalogue can have sent out as a key: those below its folder, and only one line of them. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { readKey } from '../../../monitor/catalogue/key-file.ts'
import { folderWith } from './catalogues.ts'

let beforeOpen = () => {} // of the next file
vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  const open: typeof real.open = (...args) => {
    beforeOpen()
    return real.open(...args)
  }
  return { ...real, open }
})

function folderOfKeys() {
  const outside = folderWith({ 'db-password': 'hunter2\n' }, '')
  const folder = folderWith(
    { 'site.key': 'sk-1\r\n', 'two.key': 'one\ntwo\n', 'long.key': 'x'.repeat(1_025) },
    '',
  )
  mkdirSync(join(folder, 'secrets'))
  mkdirSync(join(folder, '..data'))
  writeFileSync(join(folder, 'secrets', 'site.key'), 'sk-2')
  writeFileSync(join(folder, '..data', 'key'), 'x'.repeat(1_024))
  symlinkSync('..data/key', join(folder, 'mounted.key'))
  symlinkSync(join(outside, 'db-password'), join(folder, 'link.key'))
  symlinkSync(outside, join(folder, 'linked'))
  execFileSync('mkfifo', [join(folder, 'pipe.key')])
  return { folder, outside }
}

test('8.1: the key is the one line of a file below the folder, links within it included', async () => {
  const { folder, outside } = folderOfKeys()
  expect(await readKey({ folder, name: 'site.key' })).toBe('sk-1')
  expect(await readKey({ folder, name: 'secrets/site.key' })).toBe('sk-2')
  expect(await readKey({ folder, name: 'mounted.key' })).toHaveLength(1_024)
  symlinkSync(folder, join(outside, 'catalogue')) // the folder itself may be reached through a link
  expect(await readKey({ folder: join(outside, 'catalogue'), name: 'site.key' })).toBe('sk-1')
})

// biome-ignore format: a table
const refusals: [name: string, reason: RegExp][] = [
  ['link.key',           /link\.key leads out of the catalogue's folder/],
  ['linked/db-password', /linked\/db-password leads out of the catalogue's folder/],
  ['../x',               /ENOENT|leads out/],
  ['/etc/hostname',      /leads out of the catalogue's folder/],
  ['secrets',            /secrets is not a file/],
  ['pipe.key',           /pipe\.key is not a file/],
  ['two.key',            /two\.key has no key: one line of at most 1024 visible ASCII/],
  ['long.key',           /long\.key has no key/],
  ['none.key',           /ENOENT/],
]

for (const [name, reason] of refusals) {
  test(`8.1: ${name} is not accepted as a key, and no part of it is shown`, async () => {
    const { folder } = folderOfKeys()
    const error = await readKey({ folder, name }).catch((error: Error) => error)
    expect(error).toBeInstanceOf(Error)
    expect((error as Error).message).toMatch(reason)
    expect((error as Error).message).not.toMatch(/hunter2|one\ntwo/)
  })
}

test.runIf(process.platform === 'linux')(
  '8.1: a folder that becomes a link between the check and the opening leads nowhere',
  async () => {
    const { folder, outside } = folderOfKeys()
    writeFileSync(join(outside, 'site.key'), 'hunter2')
    beforeOpen = () => {
      beforeOpen = () => {}
      renameSync(join(folder, 'secrets'), join(folder, 'away'))
      symlinkSync(outside, join(folder, 'secrets'))
    }
    await expect(readKey({ folder, name: 'secrets/site.key' })).rejects.toThrow(
      /^secrets\/site\.key leads out of the catalogue's folder$/,
    )
  },
)
