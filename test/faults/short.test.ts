/** The short form of scenarios whose faults no other test has: few calls, and nothing that depends on how busy the machine is. */
import { expect, test } from 'vitest'
import { seed } from '../helpers/size.ts'
import { scenarios } from './scenarios/process.ts'

const NAMES = ['worker-crashed', 'service-stopped']

for (const { name, run } of scenarios.filter((each) => NAMES.includes(each.name))) {
  test(name, async () => {
    const short = { decisions: 0, faultMs: 200, afterMs: 300, ratePerSec: 200, isTimed: false }
    const { counts, violations } = await run({ ...short, seed: seed(), log: () => {} })
    expect(violations).toEqual([])
    expect(counts.compared).toBeGreaterThan(0)
  })
}
