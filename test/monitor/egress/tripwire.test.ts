/** That the tripwire would be seen: with its address opened, the same Egress does reach it. */
import { expect, test } from 'vitest'
import { startWorld } from './setup.ts'

test('13.7: the listener on loopback sees a connection when there is one', async () => {
  const world = await startWorld()
  const egress = world.egress({}, { EGRESS_TEST_ALLOW: '127.0.0.1' })
  const visit = await egress.visit({ url: `http://127.1:${world.port}/`, purpose: 'catalogue' })
  expect([visit.error, visit.status, world.tripped()]).toEqual([null, 404, 1])
  await world.close()
})
