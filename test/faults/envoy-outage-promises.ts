/**
 * What the runs of a row must fulfil; docs/reliability.md promises it.
 *
 *     wrong, lost    none: limits hold, Envoy keeps its connections
 *     differs        none, of envoyproxy/ratelimit either: else the measurement is wrong
 *     failed         none with local, allow and deny, but for calls that were in flight when the fault began and had no core in time:
 *                    at most FAILED_SHARE_MAX of the requests due within Envoy's timeout (10 at 2,000 per second), in each run
 */
import { REFERENCE, TIMEOUT_MS } from './envoy-outage-run.ts'
import type { Figures, Row } from './envoy-outage-series.ts'

export const FAILED_SHARE_MAX = 0.25

/** One line per broken promise; none if all were kept. */
export function findBrokenPromises({ store, fault, service, ratePerSec, runs }: Row): string[] {
  if (runs.length === 0) return [`${store} ${fault} ${service}: no run is valid`]
  const isOurs = service !== REFERENCE
  const inFlight = (ratePerSec * TIMEOUT_MS) / 1_000
  const bounds: [name: keyof Figures, what: string, max: number][] = [
    ['differing', "answers that Envoy's statistics do not confirm", 0],
  ]
  if (isOurs) {
    bounds.push(['wrong', 'answers that the limit does not allow', 0])
    bounds.push(['lost', 'connections of Envoy lost', 0])
  }
  if (isOurs && service !== 'error')
    bounds.push(['failed', 'failed requests', Math.floor(FAILED_SHARE_MAX * inFlight)])
  return bounds.flatMap(([name, what, max]) => {
    const worst = runs.reduce((most, { figures }) => Math.max(most, figures[name]), 0)
    return worst > max ? [`${store} ${fault} ${service}: ${worst} ${what} in one run, at most ${max}`] : []
  })
}
