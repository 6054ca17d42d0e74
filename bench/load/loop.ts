/**
 * Who asks when.
 *
 *     closed   each stream asks again as soon as it is answered: the server sets the pace
 *     open     call k is meant to start at begin + k / rate, whatever the server does: callers do not wait for each other
 *
 * In open loop a call counts from when it was meant to start, not from when it could be sent, so a server that stands
 * still for a second shows in the latency of all calls of that second (no coordinated omission). Calls that find all
 * streams taken wait; they are only a number, since their times follow from it. Beyond `backlogMax` the oldest are
 * dropped, and counted.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { Clock } from './clock.ts'
import type { Connection, Listener } from './connection.ts'
import { type DialOptions, dial } from './dial.ts'
import type { Recorder } from './recorder.ts'

export interface LoopOptions extends DialOptions {
  connections: number
  ratePerSec: number // 0 = closed loop
  backlogMax: number
}

const OPEN_MS_MAX = 5_000 // from connected to the server's first words
const DRAIN_MS_MAX = 5_000
const REDIAL_MS = 100
const BLOCKED_MS = 1_000 // long enough not to poll: polling would take the core that the server's Redis may need

export class Loop implements Listener {
  private readonly options: LoopOptions
  private readonly recorder: Recorder
  private readonly connections: Connection[] = []
  private readonly touched: Connection[] = [] // to be flushed
  private readonly leftovers = new Set<Connection>() // leaving, with calls in flight
  private isRunning = false
  private isStopping = false
  beginMs = 0 // of the first call
  private redialling = 0 // connections that do not stand
  private sent = 0 // open loop: calls made or dropped
  private heldBelow = 0 // open loop: calls before this number found all streams taken
  private turn = 0
  private readonly clock = new Clock(() => this.beat())

  constructor(options: LoopOptions, recorder: Recorder) {
    this.options = options
    this.recorder = recorder
  }

  /** All connections stand; then calls begin. */
  async start(): Promise<void> {
    const { connections, streams, endpoint } = this.options
    const count = endpoint.protocol === 'grpc' ? connections : connections * streams // one call at a time each
    for (let i = 0; i < count; i++) {
      try {
        this.connections.push(await dial(this.options, this))
      } catch (error) {
        throw this.noServer(`cannot connect: ${(error as Error).message}.`, error)
      }
    }
    const until = performance.now() + OPEN_MS_MAX
    while (!this.connections.every(({ isOpen }) => isOpen)) {
      const [reason] = Object.keys(this.recorder.errors)
      if (reason !== undefined || performance.now() > until)
        throw this.noServer(`${reason ?? 'it says nothing'}.`)
      await sleep(5)
    }
    this.isRunning = true
    this.beginMs = performance.now()
    if (this.options.ratePerSec > 0) this.clock.start(this.options.ratePerSec)
    else for (const connection of this.connections) this.fill(connection, this.beginMs)
  }

  /** No further calls; those in flight are waited for, then everything is closed. */
  async stop(): Promise<void> {
    if (this.options.ratePerSec > 0) {
      this.release(this.recorder.toMs)
      this.countUnmade()
    }
    this.isRunning = false
    this.isStopping = true
    this.clock.stop()
    const until = performance.now() + DRAIN_MS_MAX
    const all = () => [...this.connections, ...this.leftovers]
    while (all().some(({ inFlight }) => inFlight > 0) && performance.now() < until) await sleep(1)
    for (const connection of all()) {
      for (let i = 0; i < connection.inFlight; i++)
        this.recorder.failed(`no answer within ${DRAIN_MS_MAX / 1_000} s`)
      connection.close()
    }
  }

  answered(intendedMs: number, nowMs: number, code: number): void {
    this.recorder.answered(intendedMs, nowMs, code)
  }

  failed(_intendedMs: number, reason: string): void {
    this.recorder.failed(reason)
  }

  refused(): void {
    this.recorder.refused++
  }

  settled(connection: Connection, nowMs: number): void {
    if (this.isRunning && this.options.ratePerSec === 0) this.fill(connection, nowMs)
    else if (this.isRunning) this.release(nowMs)
    if (this.leftovers.size > 0 && connection.inFlight === 0) this.leftovers.delete(connection)
  }

  leaving(connection: Connection, reason: string): void {
    if (!this.isRunning) {
      if (!this.isStopping) this.recorder.failed(reason)
      return
    }
    if (connection.inFlight > 0) this.leftovers.add(connection)
    this.recorder.reconnects++
    void this.redial(connection, reason)
  }

  private async redial(old: Connection, reason: string): Promise<void> {
    this.redialling++
    await sleep(REDIAL_MS)
    while (this.isRunning) {
      try {
        const connection = await dial(this.options, this)
        this.connections[this.connections.indexOf(old)] = connection
        this.redialling--
        if (this.options.ratePerSec === 0) this.fill(connection, performance.now())
        return
      } catch (error) {
        this.recorder.failed(`cannot connect again (${reason}): ${(error as Error).message}`)
        await sleep(REDIAL_MS)
      }
    }
  }

  private fill(connection: Connection, nowMs: number): void {
    for (let free = connection.free; free > 0; free--) connection.start(nowMs)
    connection.flush()
  }

  /** Open loop: what is due; ms until there is more. Without a free stream that is up to the answers, not to time. */
  private beat(): number {
    const nowMs = performance.now()
    this.release(nowMs)
    const restMs = this.intendedMs(this.sent) - nowMs
    return restMs < 0 ? BLOCKED_MS : restMs
  }

  /** Makes the calls that are due, as far as streams are free. */
  private release(nowMs: number): void {
    const { ratePerSec, backlogMax } = this.options
    const due = Math.floor(((nowMs - this.beginMs) * ratePerSec) / 1_000) + 1
    if (due <= this.sent) return
    if (due - this.sent > backlogMax) {
      if (this.intendedMs(this.sent) >= this.recorder.fromMs) this.dropped(due - this.sent - backlogMax)
      this.sent = due - backlogMax
    }
    while (this.sent < due) {
      const connection = this.nextFree()
      if (connection === null) break
      const intendedMs = this.intendedMs(this.sent)
      const isHeld = this.sent < this.heldBelow
      if (this.recorder.isCounted(intendedMs, nowMs)) {
        if (isHeld) this.recorder.held++
        else this.recorder.lag.add(nowMs - intendedMs)
      }
      connection.start(intendedMs)
      this.touched.push(connection)
      this.sent++
    }
    if (this.sent < due) this.heldBelow = due
    for (const connection of this.touched) connection.flush()
    this.touched.length = 0
  }

  /** Calls of the window whose turn has not come: the server was too far behind. */
  private countUnmade(): void {
    const { fromMs, toMs } = this.recorder
    const callAt = (ms: number) => Math.ceil(((ms - this.beginMs) * this.options.ratePerSec) / 1_000)
    this.dropped(Math.max(0, callAt(toMs) - Math.max(this.sent, callAt(fromMs))))
  }

  private dropped(calls: number): void {
    this.recorder.dropped += calls
    if (this.redialling >= this.connections.length) this.recorder.unconnected += calls
  }

  private intendedMs(call: number): number {
    return this.beginMs + (call * 1_000) / this.options.ratePerSec
  }

  private nextFree(): Connection | null {
    const { connections } = this
    for (let tries = 0; tries < connections.length; tries++) {
      this.turn = this.turn + 1 < connections.length ? this.turn + 1 : 0
      if (connections[this.turn].free > 0) return connections[this.turn]
    }
    return null
  }

  private noServer(what: string, cause?: unknown): ConfigurationError {
    const { protocol, host, port } = this.options.endpoint
    const fix =
      protocol === 'grpc' ? 'Is a gRPC server without TLS there?' : 'Is an HTTP server without TLS there?'
    return new ConfigurationError(
      { code: 'LOAD_CONNECT', where: `${protocol}://${host}:${port}`, what, fix },
      { cause },
    )
  }
}
