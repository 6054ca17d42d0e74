/**
 * The fault lab in its short form: some scenarios of `npm run test:faults` with few calls. What depends on how busy the machine is, deadlines
 * and the time to recovery, is checked by the long form alone.
 */
import { expect, test } from 'vitest'
import { seed } from '../helpers/size.ts'
import { loadScenarios } from './main.ts'
import { startDecided } from './redis-faults.ts'
import { type LabOptions, underLoad } from './scenario.ts'

const SHORT: LabOptions = {
  decisions: 0, // one round
  seed: seed(),
  faultMs: 400,
  afterMs: 600,
  ratePerSec: 300,
  isTimed: false,
  log: () => {},
}

test.concurrent.each(['redis-killed-durable', 'redis-stopped-metadata', 'redis-proxy-garbage'])(
  `%s: no invariant is broken (seed ${SHORT.seed})`,
  async (name) => {
    const scenario = (await loadScenarios()).find((each) => each.name === name)!
    const { counts, violations } = await scenario.run(SHORT)
    expect(violations).toEqual([])
    expect(counts.counted).toBeGreaterThan(0)
    expect(counts.compared).toBeGreaterThan(0)
    expect(counts.unanswered).toBe(0)
  },
)

test('a store that tells wrong counts is noticed', async () => {
  const lying = underLoad({
    name: 'lying',
    fault: 'each counter is said to be 3',
    promise: 'none',
    start: () => startDecided(({ args: [name] }) => (name === 'INCRBY' ? { replaced: ':3\r\n' } : null)),
  })
  const { violations } = await lying.run(SHORT)
  const found = violations.map(({ invariant }) => invariant)
  expect(found).toEqual(expect.arrayContaining(['remaining', 'once']))
})

test('each scenario has a name of its own and says what it promises', async () => {
  const scenarios = await loadScenarios()
  expect(scenarios.length).toBeGreaterThan(40)
  for (const { name, fault, promise } of scenarios) {
    expect(name).toMatch(/^[a-z0-9-]{5,60}$/)
    expect(fault.length + promise.length, name).toBeGreaterThan(20)
  }
})
