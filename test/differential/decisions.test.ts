/**
 * Random rules and requests to Sluice and to envoyproxy/ratelimit: responses, counters and statistics are equal.
 *
 *     SLUICE_REFERENCE=/path/to/ratelimit npx vitest run test/differential      (spec: sections 1 to 6.4, 12)
 */
import { describe, expect, test } from 'vitest'
import { seed, size } from '../helpers/size.ts'
import { type Pair, startPair } from './pair.ts'
import { ABSENT, program } from './program.ts'
import { Random } from './random.ts'
import { runRound } from './round.ts'
import { compareStatistics } from './statistics.ts'
import { emptyTally, isFull, summary, type Tally } from './tally.ts'
import { type Variant, variant } from './variants.ts'

const ROUND = size({ small: { lanes: 8, requests: 25 }, full: { lanes: 16, requests: 60 } })
const ROUNDS = size({ small: 1, full: 8 }) // per start of the services
const DECISIONS = Number(process.env.SLUICE_DECISIONS ?? size({ small: 600, full: 200_000 }))

describe.skipIf(program === '')('beside the reference', () => {
  test(`2 to 6: ${DECISIONS} random decisions, seed ${seed()}`, async () => {
    const random = new Random(seed())
    const tally = emptyTally()
    for (let run = 0; tally.requests < DECISIONS && !isFull(tally); run++) {
      const chosen = variant(run, random.fork())
      const pair = await startPair(program, chosen.settings)
      try {
        await runRounds(pair, chosen, random.fork(), tally)
      } finally {
        await pair.stop()
      }
    }
    console.log(`seed ${seed()}: ${summary(tally)}`)
    for (const { what, text } of tally.failures) console.error(`--- ${what}, seed ${seed()}\n${text}`)
    expect(tally.failures.map(({ what }) => what)).toEqual([])
  })
})

async function runRounds(pair: Pair, chosen: Variant, random: Random, tally: Tally): Promise<void> {
  const setAsideTags = new Set<string>()
  for (let round = 0; round < ROUNDS && !isFull(tally); round++) {
    for (const tag of await runRound(pair, chosen, round, ROUND, random.fork(), tally)) setAsideTags.add(tag)
  }
  if (!chosen.hasGiants) await compareStatistics(pair, chosen, setAsideTags, tally)
}

test.skipIf(program !== '')(ABSENT, (context) => context.skip(ABSENT))
