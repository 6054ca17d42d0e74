/** What a fault must do, and must not: checks of a scenario at its end, from what its history counted. */
import type { History } from './history.ts'

/** Whether the fault did something: calls were not counted or, with `slowMs`, one took that long. */
export function checkEffect(history: History, slowMs: number | null): void {
  const { slowestMs, notCountedInFaults } = history.counts
  if (slowMs === null && notCountedInFaults === 0)
    history.report('effect', null, 'each call was counted in the fault')
  if (slowMs !== null && slowestMs < slowMs)
    history.report('effect', null, `the slowest call took ${Math.round(slowestMs)} ms, not ${slowMs} ms`)
}

/** Of a fault in which the service knows of each hit whether it was counted. `unknownHits`: what it flagged. */
export function checkNoneFlagged(history: History, unknownHits: number): void {
  if (unknownHits > 0)
    history.report('flagged', null, `${unknownHits} hits were flagged, although the outcome of all is known`)
}
