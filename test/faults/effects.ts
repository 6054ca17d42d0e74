/** What a fault must do, and must not: checks of a round, and of a scenario at its end. */
import type { RunningService } from '../helpers/service.ts'
import type { History } from './history.ts'
import type { Effect } from './timing.ts'

/**
 * Whether the fault of a round did something: calls were not counted or, with `slowMs`, one took that long. A round without its fault
 * proves nothing, so it is reported; returns false then.
 */
export function checkEffect(history: History, effect: Effect, slowMs: number | null): boolean {
  const { notCounted, slowestMs } = effect
  if (slowMs === null && notCounted === 0)
    history.report('effect', null, 'each call was counted in the fault of a round')
  else if (slowMs !== null && slowestMs < slowMs)
    history.report(
      'effect',
      null,
      `the slowest call of a round took ${Math.round(slowestMs)} ms, not ${slowMs} ms`,
    )
  else return true
  return false
}

/** How many circuit breakers are open, and how often they have opened, over all nodes and workers. */
export async function countBreakers(service: RunningService): Promise<{ open: number; opened: number }> {
  const stats = Object.entries(await service.stats())
  const sum = (prefix: string) =>
    stats.reduce((total, [name, value]) => (name.startsWith(prefix) ? total + value : total), 0)
  return { open: sum('sluice.store.breaker_open.'), opened: sum('sluice.store.breaker_opened.') }
}

/** Of a fault in which the service knows of each hit whether it was counted. `unknownHits`: what it flagged. */
export function checkNoneFlagged(history: History, unknownHits: number): void {
  if (unknownHits > 0)
    history.report('flagged', null, `${unknownHits} hits were flagged, although the outcome of all is known`)
}
