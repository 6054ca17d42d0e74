/** A worker that blocks for ever does not keep the service from ending. */
import { expect, test } from 'vitest'
import { startService } from '../helpers/service.ts'

test('a blocked worker is named in the log, and SIGTERM ends the process after DRAIN_TIMEOUT', async () => {
  const env = { NODE_ENV: 'test', WORKERS: '2', DRAIN_TIMEOUT: '100ms' }
  const service = await startService({ rules: { 'shop.yaml': 'domain: shop' }, env })
  service.child.send({ stallWorker: 1, stallMs: 2 ** 31 - 1 })
  await service.logged('worker 1 is unresponsive: its event loop has not turned for 5 s')
  const { signal, log } = await service.stop()
  expect(log).toContain('worker 1 is unresponsive and has not ended within DRAIN_TIMEOUT; its calls are cut')
  expect(log).not.toContain('worker 0 is unresponsive and')
  expect(signal, 'an ordinary exit would abort').toBe('SIGKILL')
})
