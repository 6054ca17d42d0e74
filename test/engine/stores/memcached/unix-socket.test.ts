/** A node on a unix socket instead of a port. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startMemcached } from '../../../helpers/memcached.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'
import { storeOn } from './harness.ts'

test('a unix socket', async () => {
  const path = join(makeTemporaryFolder(), 'memcached.sock')
  const local = await startMemcached({ path })
  const store = storeOn([path])
  await store.store.connect()
  expect(await store.add([['a', 1]])).toEqual([[0]])
  await store.store.close()
  expect((await local.read('a'))?.value).toBe('1')
  await local.stop()
})
