/**
 * What does a trip to the store cost in its circuit breaker while that is closed?
 *   floor   an addition to a field
 *   now     a trip that succeeded
 *   timed   the same with STORE_BREAKER_LATENCY, with the clock read for it
 *   bad     every fourth trip failed: below the share, so it stays closed
 * Worth changing when `now` is above 20 ns: a trip carries one decision at low load, and the bound is 200 ns per decision.
 */
import { type BreakerOptions, CircuitBreaker } from '../engine/stores/circuit-breaker.ts'
import { measure } from './measure.ts'
import { size } from './size.ts'

const tripsCount = size({ small: 1_000, full: 1_000_000 })
const OPTIONS: BreakerOptions = {
  failuresInRow: 5,
  share: 0.5,
  windowMs: 2_000,
  latencyMs: 0,
  silenceMs: 50,
  probeIntervalMs: 200,
  successes: 2,
}

function createBreaker(latencyMs: number): CircuitBreaker {
  const never = () => {
    throw new Error('the breaker must stay closed')
  }
  const hooks = {
    nowMs: () => performance.now(),
    waitingSinceMs: never,
    random: Math.random,
    probe: never,
    onChange: never,
  }
  return new CircuitBreaker({ ...OPTIONS, latencyMs }, { ...hooks, schedule: never })
}

const floor = { trips: 0 }
const plain = createBreaker(0)
const timed = createBreaker(60_000)
const mixed = createBreaker(0)

await measure('breaker', tripsCount, {
  floor: () => {
    for (let i = 0; i < tripsCount; i++) floor.trips++
    return floor.trips
  },
  now: () => {
    let open = 0
    for (let i = 0; i < tripsCount; i++) {
      if (plain.isOpen) open++
      plain.onSuccess(0)
    }
    return open
  },
  timed: () => {
    let open = 0
    for (let i = 0; i < tripsCount; i++) {
      if (timed.isOpen) open++
      const startMs = performance.now()
      timed.onSuccess(performance.now() - startMs)
    }
    return open
  },
  'bad   every fourth': () => {
    let open = 0
    for (let i = 0; i < tripsCount; i++) {
      if (mixed.isOpen) open++
      if (i % 4 === 0) mixed.onFailure('no reply')
      else mixed.onSuccess(0)
    }
    return open
  },
})
