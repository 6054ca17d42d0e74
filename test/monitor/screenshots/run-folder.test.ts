/** Temporary folders of browsers. */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { createRunFolder, removeRunFolder, toOwner } from '../../../monitor/screenshots/run-folder.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const OWNER = toOwner('/data', 'monitor')

afterEach(() => vi.unstubAllEnvs())

test('M8.3#2: a temporary folder whose path leaves no room for a socket of the browser is refused, with the length that fits', async () => {
  const base = makeTemporaryFolder()
  const long = join(base, 'x'.repeat(100 - base.length))
  mkdirSync(long)
  vi.stubEnv('TMPDIR', long)
  await expect(createRunFolder(OWNER)).rejects.toThrow(/needs? one of at most \d+ characters/)
  const fitting = long.slice(
    0,
    Number(/at most (\d+)/.exec(String(await createRunFolder(OWNER).catch((error) => error)))![1]),
  )
  mkdirSync(fitting, { recursive: true })
  vi.stubEnv('TMPDIR', fitting)
  const { folder } = await createRunFolder(OWNER)
  expect(`${folder}/org.chromium.Chromium.123456/SingletonSocket`.length).toBe(107)
  await removeRunFolder(folder)
  rmSync(fitting, { recursive: true })
})
