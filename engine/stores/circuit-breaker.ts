/**
 * A circuit breaker of one node: while the node fails or is slow, hits are not sent to it and so no caller waits for it.
 *
 *     closed ── failuresInRow trips failed one after the other, or ────────────────────────► open
 *        ▲      at least `share` of the trips of the window (TRIPS_MIN or more) bad, or        │
 *        │      calls reach their deadlines and for `silenceMs` no trip has ended              │
 *        └───── `successes` probes in a row succeeded ◄── one probe per interval, with jitter ─┘
 *
 * A trip is one write and its replies; with memcached, the writes of one hit. It is bad if it failed or took more than `latencyMs`. The window is two halves, of which the older
 * one is dropped, so it covers `windowMs` / 2 to `windowMs`. Time is read only for bad trips, and halves change only then: a good trip
 * costs two additions (bench/breaker.ts). A half that began longer ago than the window is dropped with the good trips in it, so
 * a fault after an hour of success is judged by itself.
 *
 * Silence is judged only when calls have reached their deadlines: callers that can wait are not refused because of a pause, and nothing
 * is timed while replies come.
 *
 * Why not a library: opossum 10 and cockatiel 4 wrap a function that returns a promise, here 0.4 and 0.15 us per trip without one; they
 * probe with a caller's request, which then waits; and neither counts slow trips.
 */
import { jitteredMs } from '../runtime/backoff.ts'

export interface BreakerOptions {
  failuresInRow: number // STORE_BREAKER_FAILURES; 0 = never opens
  share: number // STORE_BREAKER_SHARE, 0 to 1
  windowMs: number // STORE_BREAKER_WINDOW
  latencyMs: number // STORE_BREAKER_LATENCY; 0 = no trip is slow
  silenceMs: number // STORE_BREAKER_SILENCE; 0 = silence does not open it
  probeIntervalMs: number // STORE_BREAKER_PROBE_INTERVAL
  successes: number // STORE_BREAKER_SUCCESSES
}

export interface BreakerHooks {
  /** Sends a harmless command to the node, whatever the breaker says, and calls `done` once. */
  probe(done: (isOk: boolean) => void): void
  /** When the oldest trip without a reply began, in milliseconds of `nowMs`; null = there is none. */
  waitingSinceMs(): number | null
  onChange(): void // of isOpen
  /** It has opened because the node is silent: calls that wait for a reply are to fail now. */
  onSilent?(): void
  nowMs(): number
  random(): number // 0 to below 1
  /** Calls `run` after `ms`; returns what cancels that. */
  schedule(ms: number, run: () => void): () => void
}

/** Fewer trips in the window say nothing about a share. */
const TRIPS_MIN = 10

const JITTER_SHARE = 0.2 // of the interval of probes, so that workers and instances do not probe together

export class CircuitBreaker {
  isOpen = false
  reason = '' // why it is open, or was last; for the log
  /** Trips must be timed. */
  readonly isTiming: boolean
  private readonly options: BreakerOptions
  private readonly hooks: BreakerHooks
  private failedInRow = 0
  private trips = 0 // of the current half
  private badTrips = 0
  private halfStartMs: number
  private formerTrips = 0 // of the half before it
  private formerBadTrips = 0
  private silentTrips = -1 // `trips` at the last look for silence; -1 = a trip has failed since
  private silentSinceMs = 0 // of that look, or of an earlier one that saw the same
  private succeededProbes = 0 // in a row
  private isProbing = false
  private cancelProbe: (() => void) | null = null
  private isClosed = false

  constructor(options: BreakerOptions, hooks: BreakerHooks) {
    this.options = options
    this.hooks = hooks
    this.isTiming = options.latencyMs > 0
    this.halfStartMs = hooks.nowMs()
  }

  /** A trip that took `tookMs`, or any number if trips are not timed. */
  onSuccess(tookMs: number): void {
    this.failedInRow = 0
    this.trips++
    if (this.isTiming && tookMs > this.options.latencyMs) this.onBad('')
  }

  /** A part of a trip that took `tookMs`, or any number if trips are not timed. It says nothing by itself unless it was slow. */
  onPart(tookMs: number): void {
    if (!this.isTiming || tookMs <= this.options.latencyMs) return
    this.trips++
    this.onBad('')
  }

  /** A trip that failed, or that was refused for a reason other than this breaker. `reason` is for the log. */
  onFailure(reason: string): void {
    this.failedInRow++
    this.trips++
    this.onBad(reason)
  }

  /** Calls have reached their deadlines. */
  onLate(): void {
    const { silenceMs, failuresInRow } = this.options
    if (this.isOpen || this.isClosed || silenceMs === 0 || failuresInRow === 0) return
    const waitingSinceMs = this.hooks.waitingSinceMs()
    if (waitingSinceMs === null) return
    const nowMs = this.hooks.nowMs()
    if (this.silentTrips !== this.trips) {
      this.silentTrips = this.trips
      this.silentSinceMs = nowMs
    }
    const silentMs = nowMs - Math.max(this.silentSinceMs, waitingSinceMs)
    if (silentMs < silenceMs) return
    this.open(`no reply for ${Math.round(silentMs)} ms, and calls reached their deadlines`)
    this.hooks.onSilent?.()
  }

  /** Opens at once, for a fault that needs no second sign. Does nothing if it never opens. */
  trip(reason: string): void {
    if (!this.isOpen && !this.isClosed && this.options.failuresInRow > 0) this.open(reason)
  }

  /** The node may work again: the next probe is sent now. */
  probeSoon(): void {
    if (this.isOpen && !this.isProbing) this.scheduleProbe(0)
  }

  /** The node is not used any more. */
  close(): void {
    this.isClosed = true
    this.cancelProbe?.()
  }

  private onBad(failure: string): void {
    const { failuresInRow, share, latencyMs, windowMs } = this.options
    this.badTrips++
    this.silentTrips = -1
    if (this.isOpen || failuresInRow === 0 || this.isClosed) return
    this.turnHalves(this.hooks.nowMs())
    const trips = this.trips + this.formerTrips
    const bad = this.badTrips + this.formerBadTrips
    const last = failure === '' ? '' : `, the last with: ${failure}`
    if (this.failedInRow >= failuresInRow) this.open(`${this.failedInRow} trips in a row failed${last}`)
    else if (trips >= TRIPS_MIN && bad >= share * trips) {
      const slow = this.isTiming ? ` or took more than ${latencyMs} ms` : ''
      this.open(`${bad} of ${trips} trips within ${windowMs} ms failed${slow}${last}`)
    }
  }

  /** The current trip belongs to the new half. */
  private turnHalves(nowMs: number): void {
    const ageMs = nowMs - this.halfStartMs
    if (ageMs < this.options.windowMs / 2) return
    const isRecent = ageMs < this.options.windowMs
    this.formerTrips = isRecent ? this.trips - 1 : 0
    this.formerBadTrips = isRecent ? this.badTrips - 1 : 0
    this.trips = 1
    this.badTrips = 1
    this.halfStartMs = nowMs
  }

  private open(reason: string): void {
    this.isOpen = true
    this.reason = reason
    this.succeededProbes = 0
    this.scheduleProbe(this.nextProbeMs())
    this.hooks.onChange()
  }

  private nextProbeMs(): number {
    return jitteredMs(this.options.probeIntervalMs, JITTER_SHARE, this.hooks.random)
  }

  private scheduleProbe(ms: number): void {
    this.cancelProbe?.()
    this.cancelProbe = this.hooks.schedule(ms, () => this.probe())
  }

  private probe(): void {
    const startMs = this.hooks.nowMs()
    this.cancelProbe = null
    this.isProbing = true
    this.hooks.probe((isOk) => {
      this.isProbing = false
      if (this.isClosed) return
      const isSlow = this.isTiming && this.hooks.nowMs() - startMs > this.options.latencyMs
      this.succeededProbes = isOk && !isSlow ? this.succeededProbes + 1 : 0
      if (this.succeededProbes >= this.options.successes) this.reset()
      else this.scheduleProbe(this.nextProbeMs())
    })
  }

  private reset(): void {
    this.isOpen = false
    this.failedInRow = 0
    this.trips = 0
    this.badTrips = 0
    this.formerTrips = 0
    this.formerBadTrips = 0
    this.silentTrips = -1
    this.halfStartMs = this.hooks.nowMs()
    this.hooks.onChange()
  }
}
