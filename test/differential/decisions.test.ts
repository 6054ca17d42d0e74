/**
 * Do we answer as the service we replace? Random rules and requests to both, answers, counters and statistics compared.
 *
 *     SLUICE_REFERENCE=/path/to/ratelimit npx vitest run test/differential      (spec: sections 1 to 6.4, 12)
 */
import { describe, expect, test } from 'vitest'
import { seed, size } from '../helpers/size.ts'
import { Dice } from './dice.ts'
import { type Pair, startPair } from './pair.ts'
import { ABSENT, program } from './program.ts'
import { runRound } from './round.ts'
import { compareStatistics } from './statistics.ts'
import { emptyTally, isFull, summary, type Tally } from './tally.ts'
import { type Variant, variant } from './variants.ts'

const ROUND = size({ small: { lanes: 8, questions: 25 }, full: { lanes: 16, questions: 60 } })
const ROUNDS = size({ small: 1, full: 8 }) // per start of the services
const DECISIONS = Number(process.env.SLUICE_DECISIONS ?? size({ small: 600, full: 200_000 }))

describe.skipIf(program === '')('beside the reference', () => {
  test(`2 to 6: ${DECISIONS} random decisions, seed ${seed()}`, async () => {
    const dice = new Dice(seed())
    const tally = emptyTally()
    for (let run = 0; tally.questions < DECISIONS && !isFull(tally); run++) {
      const chosen = variant(run, dice.fork())
      const pair = await startPair(program, chosen.settings)
      try {
        await runRounds(pair, chosen, dice.fork(), tally)
      } finally {
        await pair.stop()
      }
    }
    console.log(`seed ${seed()}: ${summary(tally)}`)
    for (const { what, text } of tally.failures) console.error(`--- ${what}, seed ${seed()}\n${text}`)
    expect(tally.failures.map(({ what }) => what)).toEqual([])
  })
})

async function runRounds(pair: Pair, chosen: Variant, dice: Dice, tally: Tally): Promise<void> {
  const aside = new Set<string>()
  for (let round = 0; round < ROUNDS && !isFull(tally); round++) {
    for (const tag of await runRound(pair, chosen, round, ROUND, dice.fork(), tally)) aside.add(tag)
  }
  if (!chosen.hasGiants) await compareStatistics(pair, chosen, aside, tally)
}

test.skipIf(program !== '')(ABSENT, (context) => context.skip(ABSENT))
