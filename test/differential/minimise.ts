/**
 * Finds fewer requests that still end in a difference: chunks of the history are left out while the last response differs.
 * Counters are cleared before each try. Returns the shortest run found, or the whole run if the first try does not reproduce it.
 */
import type { SentRequest } from './client.ts'
import type { Lane, LaneResult } from './lane.ts'
import type { Pair } from './pair.ts'

const TRIES_MAX = 60

export async function minimise(pair: Pair, lane: Lane, found: LaneResult): Promise<LaneResult> {
  let triesLeft = TRIES_MAX
  let best = found
  const differs = async (requests: SentRequest[]) => {
    if (triesLeft-- <= 0) return false
    await pair.clearCounters()
    const result = await lane.run(requests)
    const isReproduced = result.difference !== null && result.sent.length === requests.length
    if (isReproduced) best = result
    return isReproduced
  }
  if (!(await differs(found.sent))) return found
  for (let chunk = best.sent.length - 1; chunk >= 1; chunk = Math.floor(chunk / 2)) {
    for (let at = 0; at < best.sent.length - 1; ) {
      const rest = best.sent.slice(0, -1).toSpliced(at, chunk)
      if (!(await differs([...rest, best.sent.at(-1)!]))) at += chunk
    }
  }
  for (let place = best.sent.length - 1; place >= 0; place--) {
    for (let i = best.sent[place].request.descriptors.length - 1; i >= 0; i--) {
      const fewer = withoutDescriptor(best.sent[place], i)
      if (fewer !== null) await differs(best.sent.with(place, fewer))
    }
  }
  return best
}

/** Null if none can be left out. Texts are not changed. */
function withoutDescriptor({ request, text }: SentRequest, index: number): SentRequest | null {
  if (text !== null || request.descriptors.length < 2) return null
  return { text, request: { ...request, descriptors: request.descriptors.toSpliced(index, 1) } }
}
