/** The clock is injected: a machine that stalls the test itself changes nothing. */
import { expect, test } from 'vitest'
import { StallDetector, startStallWatch } from '../../../monitor/egress/stall-watch.ts'
import { standStill } from '../../helpers/stand-still.ts'

function startDetector() {
  let nowMs = 1_000
  const detector = new StallDetector(() => nowMs)
  const advance = (ms: number) => {
    nowMs += ms
  }
  return { detector, advance }
}

test('a stall counts for every watch that was running', () => {
  const { detector, advance } = startDetector()
  const early = detector.start()
  advance(100)
  detector.tick()
  advance(400)
  const late = detector.start() // the stall before it is not counted
  advance(500)
  expect([early.stop(), late.stop()]).toEqual([900, 500])
})

test('a gap that has not ended counts; time without a watch does not', () => {
  const { detector, advance } = startDetector()
  advance(300)
  const watch = detector.start()
  advance(300)
  expect(watch.stop()).toBe(300)
  advance(300)
  expect(detector.start().stop()).toBe(0)
})

test('gaps below 250 ms are load, not a stall', () => {
  const { detector, advance } = startDetector()
  const watch = detector.start()
  for (let i = 0; i < 10; i++) {
    advance(249)
    detector.tick()
  }
  expect(watch.stop()).toBe(0)
})

test('the real clock shows a thread that is blocked', () => {
  const watch = startStallWatch()
  standStill(300)
  expect(watch.stop()).toBeGreaterThanOrEqual(300)
})
