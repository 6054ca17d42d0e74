/**
 * What may have been counted on one key in one window. Calls overlap, and the outcome of some is unknown, so the count at a moment is
 * known only as an interval:
 *
 *     sure                                count                        possible
 *      │── hits of calls that were          │    hits of calls in       │
 *      │   counted and answered ─────────►  │ ◄─ flight, or of unknown ─│
 *
 * A call that began when `sure` was S and was answered when `possible` was P got a count from S + its hits to P.
 */
import type { StoreErrorPolicy } from '../../engine/config/rules.ts'

/** A rule of the load. Its limit depends on the version of the rules, so that an answer shows which version it comes from. */
export interface FaultRule {
  key: string // the descriptor's key
  unit: 'second' | 'minute' | 'hour' | 'day'
  unitSec: number
  limits: readonly number[] // by version
  policy: StoreErrorPolicy
  localShare: number // percent
}

const TAKEN_MIN = 64 // counts remembered per counter at first, a byte each

/** Hits of one counter: that of the store, or that of the process for the policy `local`. */
export class Hits {
  possible = 0 // of every call that began, without those known not to be counted
  sure = 0 // of calls that were counted and have ended
  inFlight = 0 // of calls that have not ended
  admitted = 0 // of calls that were counted and let through
  limitMax = 0 // of the answers to these
  unflagged = 0 // that may be counted here beyond `sure`, without the service owing a mark: see History.checkFlagged
  private taken: Uint8Array | null = null // by count: 1 = an admitted call got this count

  /** All that was counted is lost; hits in flight may still be counted. */
  lose(): void {
    this.possible = this.inFlight
    this.sure = 0
    this.admitted = 0
    this.limitMax = 0
    this.unflagged = 0
    this.taken = null
  }

  /** Some of what was counted may be lost, and it may not be known what. */
  loseSome(): void {
    this.sure = 0
    this.admitted = 0
    this.limitMax = 0
    this.unflagged = this.possible
    this.taken = null
  }

  /** Takes the counts from `after` - `hits` + 1 to `after`. Returns false if another call has got one of them. */
  take(after: number, hits: number): boolean {
    const length = this.taken?.length ?? 0
    if (this.taken === null || length <= after) {
      const larger = new Uint8Array(Math.max(TAKEN_MIN, 2 * length, after + 1))
      if (this.taken !== null) larger.set(this.taken)
      this.taken = larger
    }
    let isFree = true
    for (let count = after - hits + 1; count <= after; count++) {
      if (this.taken[count] !== 0) isFree = false
      this.taken[count] = 1
    }
    return isFree
  }
}

export class Window {
  readonly startSec: number
  readonly store = new Hits()
  readonly local = new Hits()
  lossCount: number // of the history when `store` was last corrected

  constructor(startSec: number, lossCount: number) {
    this.startSec = startSec
    this.lossCount = lossCount
  }
}

/** A counter key without its window, and its windows, oldest first. */
export class Key {
  readonly rule: FaultRule
  readonly value: string
  readonly windows: Window[] = []

  constructor(rule: FaultRule, value: string) {
    this.rule = rule
    this.value = value
  }

  /** The window that holds the time; created with `lossCount`. */
  getWindow(wallMs: number, lossCount: number): Window {
    const sec = Math.floor(wallMs / 1_000)
    const startSec = sec - (sec % this.rule.unitSec)
    for (let i = this.windows.length - 1; i >= 0; i--)
      if (this.windows[i].startSec === startSec) return this.windows[i]
    const window = new Window(startSec, lossCount)
    this.windows.push(window)
    return window
  }

  /** Hits that may have been counted in the window, with those of calls that began before it and have not ended. */
  getPossible(window: Window, of: 'store' | 'local'): number {
    let hits = window[of].possible
    for (const other of this.windows) if (other.startSec < window.startSec) hits += other[of].inFlight
    return hits
  }
}

/** The limit that a process applies under the policy `local`. */
export function toLocalLimit(limit: number, { localShare }: FaultRule): number {
  return Math.ceil((limit * localShare) / 100)
}

/** One descriptor of a call. */
export interface HistoryItem {
  rule: FaultRule
  value: string
  hits: number
}

/** One descriptor of a call in flight. */
export interface CallItem extends HistoryItem {
  entry: Key
  window: Window
  sure: number // hits counted before the call began
  localSure: number
}

export function describeItem({ rule, value, hits }: HistoryItem): string {
  return `${rule.key}=${value} x${hits}`
}
