/** Parts for tests of the store: a database, the whole store; values are in stores-plain.ts. */
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Database } from '../../../monitor/storage/database.ts'
import { migrate } from '../../../monitor/storage/migrate.ts'
import { openStore, type Store, type StoreOptions } from '../../../monitor/storage/store.ts'

import { makeMemoryFolder } from '../../helpers/memory-folder.ts'

export { catalogueSite, NOW_SEC, probe } from './stores-plain.ts'

/** A database by itself, without threads. */
export async function freshDatabase(): Promise<Database> {
  const database = new Database(join(makeMemoryFolder(), 'monitor.db'))
  onTestFinished(() => database.close())
  await migrate(database)
  return database
}

/** The whole store with its threads; closed with the test. */
export async function openTestStore(options: Partial<StoreOptions> = {}): Promise<Store & { log: string[] }> {
  const log: string[] = []
  const path = join(makeMemoryFolder(), 'monitor.db')
  const store = await openStore({ path, log: (level, text) => log.push(`${level}: ${text}`), ...options })
  onTestFinished(async () => {
    await store.close()
  })
  return Object.assign(store, { log })
}
