/**
 * How long a connection may go on: signs of life, its age, its end.
 *
 *     accepted ── hello ── calls ─┬─ silent for PING_IDLE_MS ─► PING ── no answer ─► cut
 *        │                        ├─ no progress for STALLED_MS ──────────────────► cut
 *        └ no hello in time: cut  └─ old, or the server drains ─► GOAWAY(all) ─► PING ── answer ─► GOAWAY(last call)
 *                                                                      calls end ─► closed;  after the grace ─► cut
 *
 * Two GOAWAYs, since the first one and a new call can cross: what comes before the ping's answer is served.
 */
import { DRAIN_PING_MS, PING_GAP_IDLE_MS, PING_GAP_MS, PING_STRIKES_MAX } from './bounds.ts'
import type { Connection } from './connection.ts'

const AGE_JITTER = 0.1 // so that connections that began together do not end together
const TIMER_MS_MAX = 2 ** 31 - 1 // beyond, Node's timers fire at once
const ALIVE = Buffer.from('sluice:?') // our two pings, told apart by their eight bytes
const DRAINING = Buffer.from('sluice:!')

export class Lifetime {
  private readonly connection: Connection
  private readonly timers: NodeJS.Timeout[] = []
  private handshake: NodeJS.Timeout | null
  private isDraining = false
  private pingedMs = 0 // 0 = no ping of ours is out
  private framesMark = 0
  private framesMs: number
  private sentMark = 0
  private sentMs: number
  private strikes = 0
  private lastPingMs = 0

  constructor(connection: Connection) {
    this.connection = connection
    this.framesMs = connection.nowMs
    this.sentMs = connection.nowMs
    this.handshake = setTimeout(() => connection.destroy(), connection.server.options.handshakeMs)
  }

  get isBeforePreface(): boolean {
    return this.handshake !== null
  }

  /** Age begins here: a connection cut before its hello takes the calls along that were sent with it. */
  onPreface(): void {
    if (this.handshake === null) return
    clearTimeout(this.handshake)
    this.handshake = null
    const { connectionAgeMs } = this.connection.server.options
    if (connectionAgeMs <= 0) return
    const ageMs = connectionAgeMs * (1 + AGE_JITTER * (2 * Math.random() - 1))
    if (ageMs <= TIMER_MS_MAX) this.timers.push(setTimeout(() => this.aged(), ageMs).unref())
  }

  drain(): void {
    if (this.isDraining) return
    this.isDraining = true
    this.connection.ping(DRAINING)
    this.timers.push(setTimeout(() => this.connection.lastGoaway(), DRAIN_PING_MS).unref())
  }

  /** The peer's answer to a ping. */
  answered(payload: Buffer): void {
    if (this.isDraining && payload.equals(DRAINING)) this.connection.lastGoaway()
  }

  /** A ping of the peer; false when it is one too many. gRPC's own rule. */
  pinged(nowMs: number, hasAnswered: boolean, hasCalls: boolean): boolean {
    const sinceMs = nowMs - this.lastPingMs
    this.lastPingMs = nowMs
    if (hasAnswered) this.strikes = 0
    else if (sinceMs < (hasCalls ? PING_GAP_MS : PING_GAP_IDLE_MS)) this.strikes++
    return this.strikes <= PING_STRIKES_MAX
  }

  /** `frames` and `sent` are counts that only grow; `isWithin`: half a frame is here; `isFull`: output waits. */
  sweep(nowMs: number, now: { frames: number; isWithin: boolean; sent: number; isFull: boolean }): void {
    const { pingIdleMs, pingTimeoutMs, stalledMs } = this.connection.server.options
    if (now.frames !== this.framesMark) this.pingedMs = 0
    if (!now.isWithin || now.frames !== this.framesMark) this.framesMs = nowMs
    if (!now.isFull || now.sent !== this.sentMark) this.sentMs = nowMs
    this.framesMark = now.frames
    this.sentMark = now.sent
    if (nowMs - this.framesMs > stalledMs || nowMs - this.sentMs > stalledMs) this.connection.destroy()
    else if (this.pingedMs > 0 && nowMs - this.pingedMs > pingTimeoutMs) this.connection.destroy()
    else if (this.pingedMs === 0 && nowMs - this.connection.nowMs > pingIdleMs && !this.isBeforePreface) {
      this.pingedMs = nowMs
      this.connection.ping(ALIVE)
    }
  }

  close(): void {
    if (this.handshake !== null) clearTimeout(this.handshake)
    // without ref() Node keeps 72 bytes of each until it would have fired, a day later: a leak per connection
    for (const timer of this.timers) clearTimeout(timer.ref())
  }

  private aged(): void {
    const { connectionAgeGraceMs } = this.connection.server.options
    this.connection.drain(false)
    if (connectionAgeGraceMs <= 0 || connectionAgeGraceMs > TIMER_MS_MAX) return
    this.timers.push(setTimeout(() => this.connection.destroy(), connectionAgeGraceMs).unref())
  }
}
