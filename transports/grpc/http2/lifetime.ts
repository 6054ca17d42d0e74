/**
 * How long a connection may last: keepalive, age, drain.
 *
 *     accepted ── preface ── calls ─┬─ silent for PING_IDLE_MS ─► PING ── no answer ─► closed
 *        │                          ├─ no progress for STALLED_MS ──────────────────► closed
 *        └ no preface in time:      └─ age reached, or the server drains ─► GOAWAY(all) ─► PING ── ack ─► GOAWAY(last call)
 *          closed                                          calls end ─► closed;  after the grace period ─► closed
 *
 * Two GOAWAYs, since the first one and a new call can cross: calls that arrive before the ping's ack are served.
 */
import { DRAIN_PING_MS, PING_GAP_IDLE_MS, PING_GAP_MS, PING_STRIKES_MAX } from './bounds.ts'
import type { TimedConnection } from './types.ts'

const AGE_JITTER = 0.1 // of the age, so that connections opened together do not close together
const TIMER_MS_MAX = 2 ** 31 - 1 // beyond, Node's timers fire at once
const KEEPALIVE_PING = Buffer.from('sluice:?') // the two pings differ in their payload
const DRAIN_PING = Buffer.from('sluice:!')

export class Lifetime {
  private readonly connection: TimedConnection
  private readonly timers: NodeJS.Timeout[] = []
  private handshake: NodeJS.Timeout | null
  private isDraining = false
  private pingSentMs = 0 // 0 = no ping is unanswered
  private framesSeen = 0
  private receivedMs: number
  private sentSeen = 0
  private sentMs: number
  private pingStrikes = 0
  private lastPingMs = 0

  constructor(connection: TimedConnection) {
    this.connection = connection
    this.receivedMs = connection.nowMs
    this.sentMs = connection.nowMs
    this.handshake = setTimeout(() => connection.destroy(), connection.server.options.handshakeMs)
  }

  get isBeforePreface(): boolean {
    return this.handshake !== null
  }

  /** The age counts from here: closing a connection before its preface would lose the calls sent with it. */
  onPreface(): void {
    if (this.handshake === null) return
    clearTimeout(this.handshake)
    this.handshake = null
    const { connectionAgeMs } = this.connection.server.options
    if (connectionAgeMs <= 0) return
    const ageMs = connectionAgeMs * (1 + AGE_JITTER * (2 * Math.random() - 1))
    if (ageMs <= TIMER_MS_MAX) this.timers.push(setTimeout(() => this.onAgeReached(), ageMs).unref())
  }

  drain(): void {
    if (this.isDraining) return
    this.isDraining = true
    this.connection.sendPing(DRAIN_PING)
    this.timers.push(setTimeout(() => this.connection.sendLastGoaway(), DRAIN_PING_MS).unref())
  }

  /** The peer has acknowledged a ping. */
  onPingAck(payload: Buffer): void {
    if (this.isDraining && payload.equals(DRAIN_PING)) this.connection.sendLastGoaway()
  }

  /** The peer has sent a ping. Returns false when it was one too many, by gRPC's rule (bounds.ts). */
  onPing(nowMs: number, hasResponded: boolean, hasCalls: boolean): boolean {
    const sinceMs = nowMs - this.lastPingMs
    this.lastPingMs = nowMs
    if (hasResponded) this.pingStrikes = 0
    else if (sinceMs < (hasCalls ? PING_GAP_MS : PING_GAP_IDLE_MS)) this.pingStrikes++
    return this.pingStrikes <= PING_STRIKES_MAX
  }

  /** `frames` and `sent` only grow. `isWithin`: part of a frame has arrived. `isFull`: output waits for the peer. */
  sweep(nowMs: number, progress: { frames: number; isWithin: boolean; sent: number; isFull: boolean }): void {
    const { pingIdleMs, pingTimeoutMs, stalledMs } = this.connection.server.options
    if (progress.frames !== this.framesSeen) this.pingSentMs = 0
    if (!progress.isWithin || progress.frames !== this.framesSeen) this.receivedMs = nowMs
    if (!progress.isFull || progress.sent !== this.sentSeen) this.sentMs = nowMs
    this.framesSeen = progress.frames
    this.sentSeen = progress.sent
    if (nowMs - this.receivedMs > stalledMs || nowMs - this.sentMs > stalledMs) this.connection.destroy()
    else if (this.pingSentMs > 0 && nowMs - this.pingSentMs > pingTimeoutMs) this.connection.destroy()
    else if (this.pingSentMs === 0 && nowMs - this.connection.nowMs > pingIdleMs && !this.isBeforePreface) {
      this.pingSentMs = nowMs
      this.connection.sendPing(KEEPALIVE_PING)
    }
  }

  close(): void {
    if (this.handshake !== null) clearTimeout(this.handshake)
    // without ref() Node keeps 72 bytes per timer until it would have fired, up to a day later
    for (const timer of this.timers) clearTimeout(timer.ref())
  }

  private onAgeReached(): void {
    const { connectionAgeGraceMs } = this.connection.server.options
    this.connection.drain(false)
    if (connectionAgeGraceMs <= 0 || connectionAgeGraceMs > TIMER_MS_MAX) return
    this.timers.push(setTimeout(() => this.connection.destroy(), connectionAgeGraceMs).unref())
  }
}
