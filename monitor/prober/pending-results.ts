/**
 * Publishes results in order, and failures only once it is known whether this host had network (spec 6.5): the
 * connectivity check of their minute may come up to a minute later.
 *
 *     down, 10:00:10 ──► settled? ── yes ──────────────────────────────► published
 *                           └─ no ─► held ◄── up, 10:00:55                 ▲
 *                                     └── the check of 10:00 has ended ────┘  both, the older first
 *
 * A failure, and results of its site after it, are therefore published up to a minute late. Others are published at once.
 */
import type { Observation, Probe } from '../facts.ts'

const PER_SITE_MAX = 4 // two light and one full probe per minute; beyond, the oldest is published as known so far

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

  /** Published now, or as soon as it is settled and no older result of its site is pending. */
  add(found: PendingResult): void {
    const { siteId } = found
    const queue = this.queues.get(siteId) ?? []
    this.queues.set(siteId, queue)
    queue.push(found)
    if (queue.length > PER_SITE_MAX) this.publish(queue.shift() as PendingResult)
    this.release(siteId, queue)
  }

  /** To be called when more may be settled than before. */
  releaseSettled(): void {
    for (const [siteId, queue] of this.queues) this.release(siteId, queue)
  }

  /** Publishes everything as known so far. */
  releaseAll(): void {
    for (const queue of this.queues.values()) for (const found of queue) this.publish(found)
    this.queues.clear()
  }

  /** Discards the pending results of a removed site. */
  drop(siteId: number): void {
    this.queues.delete(siteId)
  }

  private release(siteId: number, queue: PendingResult[]): void {
    while (queue.length > 0 && this.isSettled(queue[0].probe)) this.publish(queue.shift() as PendingResult)
    if (queue.length === 0) this.queues.delete(siteId)
  }
}
