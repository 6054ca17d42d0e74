/**
 * Fewer questions that still end in a difference: chunks of the history are left out as long as the last answer differs.
 * Counters are forgotten before each try. Yields the shortest run found; what the first try does not show again is
 * given back whole.
 */
import type { Question } from './ask.ts'
import type { Lane, LaneResult } from './lane.ts'
import type { Pair } from './pair.ts'

const TRIES_MAX = 60

export async function smaller(pair: Pair, lane: Lane, found: LaneResult): Promise<LaneResult> {
  let triesLeft = TRIES_MAX
  let best = found
  const differs = async (questions: Question[]) => {
    if (triesLeft-- <= 0) return false
    await pair.forget()
    const result = await lane.run(questions)
    const isIt = result.difference !== null && result.asked.length === questions.length
    if (isIt) best = result
    return isIt
  }
  if (!(await differs(found.asked))) return found
  for (let chunk = best.asked.length - 1; chunk >= 1; chunk = Math.floor(chunk / 2)) {
    for (let at = 0; at < best.asked.length - 1; ) {
      const rest = best.asked.slice(0, -1).toSpliced(at, chunk)
      if (!(await differs([...rest, best.asked.at(-1)!]))) at += chunk
    }
  }
  for (let place = best.asked.length - 1; place >= 0; place--) {
    for (let i = best.asked[place].request.descriptors.length - 1; i >= 0; i--) {
      const fewer = withoutDescriptor(best.asked[place], i)
      if (fewer !== null) await differs(best.asked.with(place, fewer))
    }
  }
  return best
}

/** Null where there is none to leave out: a text is kept as it is. */
function withoutDescriptor({ request, text }: Question, index: number): Question | null {
  if (text !== null || request.descriptors.length < 2) return null
  return { text, request: { ...request, descriptors: request.descriptors.toSpliced(index, 1) } }
}
