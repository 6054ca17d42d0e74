/** The checker holds for many decisions: each round is forgotten when it is closed. 10,000,000 at the full size. */
import { expect, test } from 'vitest'
import { seeded } from '../../bench/size.ts'
import { Unit } from '../../proto/ratelimit.ts'
import { readRssBytes } from '../helpers/rss.ts'
import { size } from '../helpers/size.ts'
import { History } from './history.ts'
import { answer, at, rule, status } from './scripted-history.ts'

const LIMIT_MAX = 1_000_000
const COUNTED = rule('deny', { limits: [LIMIT_MAX] })

test('many decisions in bounded memory: each round is forgotten', async () => {
  const rounds = size({ small: 10, full: 2_000 })
  const random = seeded(7)
  const history = new History()
  const counts = new Map<string, number>()
  let [first, most] = [0, 0]
  for (let round = 0; round < rounds; round++) {
    counts.clear()
    for (let call = 0; call < 1_000; call++) {
      const items = Array.from({ length: 5 }, () => {
        return { rule: COUNTED, value: `r${round}-${Math.floor(random() * 500)}`, hits: 1 }
      })
      const begun = history.begin(round, items, undefined, at(round))
      const statuses = items.map(({ value, hits }) => {
        const count = (counts.get(value) ?? 0) + hits
        counts.set(value, count)
        const currentLimit = { name: '', requestsPerUnit: LIMIT_MAX, unit: Unit.Day }
        return status(LIMIT_MAX - count, { currentLimit })
      })
      history.end(begun, answer(statuses), at(round))
    }
    const read = async (keys: readonly string[]) => keys.map((key) => counts.get(key.split('_')[1]) ?? null)
    await history.closeRound(round, read, () => at(round))
    if (round === Math.floor(rounds / 10)) first = readRssBytes()
    most = Math.max(most, readRssBytes())
  }
  expect(history.violations).toEqual([])
  expect(history.counts).toMatchObject({ decisions: rounds * 5_000, calls: rounds * 1_000 })
  expect(most - first).toBeLessThan(300 * 2 ** 20) // V8 collects late; 10,000,000 decisions kept would take gigabytes
})
