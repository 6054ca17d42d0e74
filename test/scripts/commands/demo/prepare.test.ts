/** What the demo writes into its database beside the history. */
import { expect, test } from 'vitest'
import { Database } from '../../../../monitor/storage/database.ts'
import { databasePath } from '../../../../monitor/storage/path.ts'
import { newDetection, toWrite } from '../../../../scripts/commands/demo/detections.ts'
import { storeWrites } from '../../../../scripts/commands/demo/prepare.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'

const DETECTION = newDetection('https://lagoon.example.org', Date.UTC(2026, 10, 20))

test('a detection is stored', async () => {
  const folder = makeTemporaryFolder()
  await storeWrites(folder, [toWrite(DETECTION)])
  const database = new Database(databasePath(folder))
  expect(database.get('SELECT count(*) AS count FROM detection')).toEqual({ count: 1 })
  database.close()
})

test('a write that the database refuses is an error, with its reason', async () => {
  const wrong = { ...DETECTION, clientHash: null as unknown as string }
  await expect(storeWrites(makeTemporaryFolder(), [toWrite(wrong)])).rejects.toThrow(
    /^the demo's detection was refused: .*constraint/,
  )
})
