/** Who may read what the monitor writes: hashes of keys and of callers are in all of these files. */
import { chmodSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ResultBuffer } from '../../../monitor/agent/buffer.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { acquireLock } from '../../../monitor/storage/lock.ts'
import { backupTo, migrate } from '../../../monitor/storage/migrate.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { NOW_SEC } from './stores.ts'

const NEW = (0o640 & ~process.umask()).toString(8)

/** As `monitor.sqlite 640`, for every file of a folder. */
function modes(folder: string): string[] {
  return readdirSync(folder).map(
    (name) => `${name} ${(statSync(join(folder, name)).mode & 0o777).toString(8)}`,
  )
}

function opened(path: string): Database {
  const database = new Database(path)
  onTestFinished(() => database.close())
  return database
}

test('8.2: the database, its log, its lock and its backup are for owner and group', async () => {
  const folder = makeMemoryFolder()
  const path = join(folder, 'monitor.sqlite')
  const lock = acquireLock(path)
  onTestFinished(() => lock.close())
  const database = opened(path)
  await migrate(database)
  await backupTo(database, join(folder, 'copy.sqlite'))
  expect(modes(folder).sort()).toEqual([
    `copy.sqlite ${NEW}`,
    `monitor.sqlite ${NEW}`,
    `monitor.sqlite-shm ${NEW}`,
    `monitor.sqlite-wal ${NEW}`,
    `monitor.sqlite.lock ${NEW}`,
  ])
})

test('8.2: an existing database keeps its mode, and backups are not more open', async () => {
  const folder = makeMemoryFolder()
  for (const [name, mode] of [
    ['private', 0o600],
    ['open', 0o644],
  ] as const) {
    const path = join(folder, name)
    writeFileSync(path, '')
    chmodSync(path, mode)
    const database = opened(path)
    await migrate(database)
    await backupTo(database, join(folder, `${name}.copy`))
  }
  expect(modes(folder).sort()).toEqual([
    ...['open 644', 'open-shm 644', 'open-wal 644', 'open.copy 640'],
    ...['private 600', 'private-shm 600', 'private-wal 600', 'private.copy 600'],
  ])
})

test('6.5: the buffer of an agent is for owner and group', () => {
  const folder = makeMemoryFolder()
  const buffer = new ResultBuffer({ path: join(folder, 'agent.sqlite'), log: () => {} })
  onTestFinished(() => buffer.close())
  buffer.forgetBefore(NOW_SEC)
  for (const line of modes(folder)) expect(line.split(' ')[1]).toBe(NEW)
})
