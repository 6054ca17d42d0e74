/**
 * Which Redis instances fail their calls, and a check for recovery.
 *
 * An instance fails when a batch gets an error for each hit it sent there. The next batch that succeeds clears this. A
 * store without traffic would report the failure forever, so while an instance fails, one of the failed hits is repeated
 * every second with an increment of 0. PING does not suffice: it succeeds while Redis refuses writes (OOM, READONLY, ACL).
 */
import { Batch } from '../batch.ts'
import { Counter } from '../counter.ts'

const CHECK_INTERVAL_MS = 1_000 // from the end of one check to the next; one check at a time

/** Errors about a single counter. They prove that Redis works. */
const COUNTER_ERROR = /: -?(WRONGTYPE|ERR value is not an integer)\b/

/** Sends a batch and calls `done` when each of its slots has a count or an error. */
type SendBatch = (batch: Batch, done: () => void) => void

/** A hit that failed. With an increment of 0 it does what a request with hits_addend 0 does. */
interface FailedHit {
  key: string
  limit: number
  windowEndSec: number
  expirySec: number
  isPerSecond: boolean
}

export class HealthCheck {
  isAnyFailing = false
  private readonly failedHits: (FailedHit | null)[] // by instance; null = it works
  private readonly send: SendBatch
  private stopIncrementWhenOverLimit = false
  private timer: NodeJS.Timeout | undefined
  private isChecking = false
  private isClosed = false

  constructor(instancesCount: number, send: SendBatch) {
    this.failedHits = new Array(instancesCount).fill(null)
    this.send = send
  }

  isFailing(index: number): boolean {
    return this.failedHits[index] !== null
  }

  /** Records the results of a finished batch. */
  update(batch: Batch): void {
    const instancesCount = this.failedHits.length
    for (let index = 0; index < instancesCount; index++) {
      let slotsCount = 0
      let failedCount = 0
      let failedSlot = 0
      for (let slot = 0; slot < batch.slotsCount; slot++) {
        if (instancesCount === 2 && batch.isPerSecond[slot] !== (index === 1)) continue
        slotsCount++
        const error = batch.getSlotError(slot)
        if (error === null || COUNTER_ERROR.test(error.message)) continue
        failedCount++
        failedSlot = slot
      }
      if (slotsCount > 0)
        this.failedHits[index] = failedCount === slotsCount ? getHit(batch, failedSlot) : null
    }
    this.stopIncrementWhenOverLimit = batch.stopIncrementWhenOverLimit
    this.onChange()
  }

  /** The instance has a new connection: it counts as working until a call fails. */
  reset(index: number): void {
    this.failedHits[index] = null
    this.onChange()
  }

  close(): void {
    this.isClosed = true
    this.onChange()
  }

  private onChange(): void {
    this.isAnyFailing = this.failedHits.some((hit) => hit !== null)
    if (!this.isAnyFailing || this.isClosed) {
      clearTimeout(this.timer)
      this.timer = undefined
    } else if (!this.isChecking) {
      this.timer ??= setTimeout(() => this.check(), CHECK_INTERVAL_MS).unref()
    }
  }

  private check(): void {
    this.timer = undefined
    this.isChecking = true
    const batch = new Batch(this.stopIncrementWhenOverLimit)
    for (const hit of this.failedHits) {
      if (hit === null) continue
      batch.add(new Counter(hit.key), 0, hit.limit, hit.windowEndSec, hit.expirySec, hit.isPerSecond)
      batch.endRequest()
    }
    this.send(batch, () => {
      this.isChecking = false
      this.onChange()
    })
  }
}

function getHit(batch: Batch, slot: number): FailedHit {
  return {
    key: batch.counters[slot].key,
    limit: batch.limits[slot],
    windowEndSec: batch.windowEndSec[slot],
    expirySec: batch.expirySec[slot],
    isPerSecond: batch.isPerSecond[slot],
  }
}
