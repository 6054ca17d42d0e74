import { expect, test } from 'vitest'
import { loadResponse } from '../../../engine/config/response-job.ts'
import { config, limit, responseBytes } from '../../helpers/xds-server.ts'

const getContentHash = async (given: Parameters<typeof responseBytes>[0]) => {
  const loaded = await loadResponse({ response: responseBytes(given), isMerging: false })
  return 'contentHash' in loaded ? loaded.contentHash : 'not decoded'
}

test('8.5: the content hash depends on the resources and not on version and nonce', async () => {
  const first = await getContentHash({ version: '1', nonce: 'a', resources: [limit('shop', 'user', 5)] })
  expect(first).toMatch(/^.{44}$/)
  expect(await getContentHash({ version: '2', nonce: 'b', resources: [limit('shop', 'user', 5)] })).toBe(
    first,
  )
  expect(await getContentHash({ version: '1', nonce: 'a', resources: [limit('shop', 'user', 6)] })).not.toBe(
    first,
  )
  expect(await getContentHash({ version: '1', nonce: 'a', resources: [] })).not.toBe(first)
})

test('a response that is refused has no content hash', async () => {
  expect(await getContentHash({ version: '1', nonce: 'a', resources: [config('shop.conf', '', [])] })).toBe(
    '',
  )
})
