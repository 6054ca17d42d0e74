import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startStallWatch } from '../../../monitor/egress/stall-watch.ts'
import { standStill } from '../../helpers/stand-still.ts'

test('a thread that stands still is noticed by everybody who watches', async () => {
  const early = startStallWatch()
  await wait(150)
  standStill(400)
  const late = startStallWatch() // what came before it is not its own
  await turn()
  standStill(500)
  const found = [early.stop(), late.stop()]
  expect(found[0]).toBeGreaterThanOrEqual(900)
  expect(found[1]).toBeGreaterThanOrEqual(500)
  expect(found[1]).toBeLessThan(found[0])
})

test('the gap at hand counts, and nothing of the time in which nobody watched', async () => {
  standStill(300)
  const watch = startStallWatch()
  standStill(300)
  const stalledMs = watch.stop()
  expect(stalledMs).toBeGreaterThanOrEqual(300)
  standStill(300)
  const next = startStallWatch()
  expect(next.stop()).toBe(0)
})
