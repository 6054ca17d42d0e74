/**
 * What is found, told in order; a failure not before it is known whose it was (spec 6.5): the control check of its minute
 * may come up to a minute after it.
 *
 *     down, 10:00:10 ──► settled? ── yes ──────────────────────────────► told
 *                           └─ no ─► held ◄── up, 10:00:55                 ▲
 *                                     └── the check of 10:00 has ended ────┘  both, the older first
 *
 * Gives up: a failure, and what its site does next, is known up to a minute later. What works is told at once otherwise.
 */
import type { Observation, Probe } from '../facts.ts'

const PER_SITE_MAX = 4 // a minute brings two light and one full; beyond: the oldest is told by what is known

export interface PendingResult {
  siteId: number
  probe: Probe
  observation: Observation | null
}

export class PendingResults {
  private readonly queues = new Map<number, PendingResult[]>() // by site, oldest first; none is empty
  private readonly isSettled: (probe: Probe) => boolean
  private readonly publish: (found: PendingResult) => void

  constructor(isSettled: (probe: Probe) => boolean, publish: (found: PendingResult) => void) {
    this.isSettled = isSettled
    this.publish = publish
  }

  /** Told now, or as soon as it is settled and nothing older of its site is held. */
  add(found: PendingResult): void {
    const { siteId } = found
    const line = this.queues.get(siteId) ?? []
    this.queues.set(siteId, line)
    line.push(found)
    if (line.length > PER_SITE_MAX) this.publish(line.shift() as PendingResult)
    this.release(siteId, line)
  }

  /** More may be settled than before. */
  releaseSettled(): void {
    for (const [siteId, line] of this.queues) this.release(siteId, line)
  }

  /** All of it, by what is known. */
  releaseAll(): void {
    for (const line of this.queues.values()) for (const found of line) this.publish(found)
    this.queues.clear()
  }

  /** The site is gone: nobody asks any more. */
  drop(siteId: number): void {
    this.queues.delete(siteId)
  }

  private release(siteId: number, line: PendingResult[]): void {
    while (line.length > 0 && this.isSettled(line[0].probe)) this.publish(line.shift() as PendingResult)
    if (line.length === 0) this.queues.delete(siteId)
  }
}
