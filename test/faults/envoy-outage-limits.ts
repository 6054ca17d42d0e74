/**
 * Checks the answers of a run against the limit. The model is two integers per user, with one bound below and one above, since a hit
 * without a count in its answer may have been counted nevertheless:
 *
 *     answer                     is right if
 *     200 by the store           fewer than `limit` earlier answers of the store
 *     429 by the store           at least `limit` earlier requests
 *     200 by the policy local    fewer than `limit` earlier answers of that policy
 *     429 by the policy local    at least `limit` earlier answers of it or failed requests
 *     429 by allow, 200 by deny  never
 *
 * The requests of a user are far enough apart to be counted in the order in which they were due. A killed store forgets its counts.
 */
import { type Answer, KEYS, type Outcome, type Plan } from './envoy-outage-run.ts'

interface Counts {
  byStore: number // answers
  requests: number
  byLocal: number // answers
  failed: number
}

const START: Counts = { byStore: 0, requests: 0, byLocal: 0, failed: 0 }

/** One line per wrong answer; none if the limits held and no user within them was refused. */
export function findWrongAnswers(
  { answers, faultMs }: Pick<Outcome, 'answers' | 'faultMs'>,
  { service, fault, limit }: Pick<Plan, 'service' | 'fault' | 'limit'>,
): string[] {
  const users = Array.from({ length: KEYS }, () => ({ ...START }))
  const wrong: string[] = []
  let isForgotten = false
  for (const answer of answers) {
    if (fault === 'kill' && !isForgotten && answer.atMs > faultMs / 2) {
      isForgotten = true
      for (const counts of users) Object.assign(counts, { byStore: 0, requests: 0 })
    }
    const counts = users[answer.user]
    if (!isRight(answer, counts, service, limit))
      wrong.push(
        `u${answer.user} at ${Math.round(answer.atMs)} ms: ${answer.kind} after ${JSON.stringify(counts)}`,
      )
    counts.requests++
    if (answer.kind === 'counted' || answer.kind === 'refused') counts.byStore++
    if (answer.kind === 'degraded' || answer.kind === 'denied') counts.byLocal++
    if (answer.kind === 'failed') counts.failed++
  }
  return wrong
}

function isRight({ kind }: Answer, counts: Counts, service: Plan['service'], limit: number): boolean {
  const { byStore, requests, byLocal, failed } = counts
  if (kind === 'counted') return byStore < limit
  if (kind === 'refused') return requests >= limit
  if (kind === 'degraded') return service === 'allow' || (service === 'local' && byLocal < limit)
  if (kind === 'denied') return service === 'deny' || (service === 'local' && byLocal + failed >= limit)
  return true
}
