/**
 * A lane: one caller that asks both services the same questions, one after the other, in domains nobody else uses.
 * Several lanes run at once, so the services see several connections while each lane's counters stay comparable.
 *
 *     question ──┬──► ours ───────┐
 *                └──► reference ──┴── same second? ──► compare ──► next, or the lane ends with its first difference
 *
 * Both services read the clock by themselves. So a question is asked only well inside a second, and a lane that was
 * answered in another second than it asked in is set aside for the rest of the round: its counters may differ now.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, Asker, type Question } from './ask.ts'
import { difference, knownDifference } from './differences.ts'
import type { Pair } from './pair.ts'
import type { Variant } from './variants.ts'

export interface Difference {
  what: string
  question: Question
  ours: Answer
  reference: Answer
}

export interface LaneResult {
  asked: Question[]
  descriptorsCount: number
  /** Why its counters cannot be compared: a known difference, or the clock; '' = they can. */
  setAside: string
  difference: Difference | null
}

const QUIET_MS = 180 // at the end of each second nothing is asked
const SHORTEST_START_SEC = 60 // in the first second of a minute, windows of second and minute share their keys (Q20)

export class Lane {
  private readonly ours: Asker
  private readonly reference: Asker
  private readonly variant: Variant

  constructor(pair: Pair, variant: Variant) {
    this.variant = variant
    this.ours = new Asker(pair.ours)
    this.reference = new Asker(pair.reference)
  }

  close(): void {
    this.ours.close()
    this.reference.close()
  }

  async run(questions: Iterable<Question>): Promise<LaneResult> {
    const result: LaneResult = { asked: [], descriptorsCount: 0, setAside: '', difference: null }
    for (const question of questions) {
      const second = await safeSecond()
      const [ours, reference] = await Promise.all([this.ours.ask(question), this.reference.ask(question)])
      if (Math.floor(Date.now() / 1000) !== second) {
        result.setAside = 'the second changed'
        return result
      }
      result.asked.push(question)
      result.descriptorsCount += question.request.descriptors.length
      const known = knownDifference(question, ours, reference, this.variant)
      const what = difference(ours, reference)
      if (known) result.setAside = known.name
      else if (what !== '') result.difference = { what, question, ours, reference }
      if (known || what !== '') return result
    }
    return result
  }
}

/** Waits until the current second has some time left, and yields it. */
async function safeSecond(): Promise<number> {
  for (;;) {
    const nowMs = Date.now()
    const second = Math.floor(nowMs / 1000)
    const leftMs = 1000 - (nowMs % 1000)
    if (leftMs > QUIET_MS && second % SHORTEST_START_SEC !== 0) return second
    await sleep(leftMs + 2)
  }
}
