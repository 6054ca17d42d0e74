/** The system clock of the service is set (clock.test.ts has every combination of steps and windows, in process). */
import { faketimeSkipReason } from '../../../scripts/dev/test-tools.mjs'
import { createFakeClock } from '../../helpers/faketime.ts'
import { pauseRedis } from '../../helpers/pause.ts'
import { startRedis } from '../../helpers/redis.ts'
import { readRedis } from '../redis-faults.ts'
import { HARMLESS, type LoadScenario, type Parts, type Scenario, underLoad } from '../scenario.ts'

const STEP_SEC = 7_200
const NOON_HOUR = 12

/** `isSlow`: Redis is stopped, so that calls wait for their deadlines when the clock is set. */
async function startStepped(isSlow: boolean): Promise<Parts> {
  const redis = await startRedis()
  const clock = createFakeClock()
  let resume = () => {}
  return {
    env: { REDIS_URL: redis.address, ...clock.env },
    begin: async ({ round }) => {
      if (isSlow) resume = (await pauseRedis(redis)).resume
      // Whole hours, and within the day: the checker's windows are then the service's, one to one.
      const isForward = new Date().getUTCHours() < NOON_HOUR
      clock.set((isForward ? STEP_SEC : -STEP_SEC) + (round % 2))
    },
    end: () => {
      clock.set(0)
      resume()
    },
    read: (keys) => readRedis(redis, keys),
    stop: async () => {
      resume()
      clock.remove()
      await redis.stop()
    },
  }
}

const SCENARIOS: LoadScenario[] = [
  {
    name: 'clock-stepped',
    fault: 'the system clock is set by two hours, and back',
    promise: 'no call is degraded, no connection is lost, counters whose window is the same go on',
    skipReason: faketimeSkipReason,
    ...HARMLESS,
    units: ['day'],
    start: () => startStepped(false),
  },
  {
    name: 'clock-stepped-redis-stopped',
    fault: 'the system clock is set by two hours while Redis does not reply',
    promise: 'calls are answered by their deadlines all the same',
    skipReason: faketimeSkipReason,
    units: ['day'],
    start: () => startStepped(true),
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
