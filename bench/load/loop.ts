/**
 * Decides when calls are made.
 *
 *     closed   each stream makes its next call when its response arrives: the server determines the rate
 *     open     call k is due at begin + k / rate, whatever the server does: calls do not wait for each other
 *
 * In an open loop the latency of a call counts from when it was due, not from when it could be sent, so a server that pauses for
 * a second shows in the latency of all calls of that second (no coordinated omission). Due calls wait while all streams are
 * taken; the backlog is only a number, since the due times follow from it. Beyond `backlogMax` the oldest are countDropped and counted.
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

const OPEN_MS_MAX = 5_000 // from connected to the server's SETTINGS
const DRAIN_MS_MAX = 5_000
const RECONNECT_MS = 100
const BLOCKED_MS = 1_000 // not polled more often: polling would take the core that Redis may need

export class Loop implements Listener {
  private readonly options: LoopOptions
  private readonly recorder: Recorder
  private readonly connections: Connection[] = []
  private readonly unflushed: Connection[] = []
  private readonly closing = new Set<Connection>() // with calls in flight
  private isRunning = false
  private isStopping = false
  beginMs = 0 // of the first call
  private reconnecting = 0 // connections that are not open
  private sent = 0 // open loop: calls made or dropped
  private heldBelow = 0 // open loop: calls before this number had to wait for a stream
  private nextIndex = 0
  private readonly clock = new Clock(() => this.onClock())

  constructor(options: LoopOptions, recorder: Recorder) {
    this.options = options
    this.recorder = recorder
  }

  /** Opens all connections, then starts calls. */
  async start(): Promise<void> {
    const { connections, streams, endpoint } = this.options
    const count = endpoint.protocol === 'grpc' ? connections : connections * streams // one call at a time each
    for (let i = 0; i < count; i++) {
      try {
        this.connections.push(await dial(this.options, this))
      } catch (error) {
        throw this.createConnectError(`cannot connect: ${(error as Error).message}.`, error)
      }
    }
    const endMs = performance.now() + OPEN_MS_MAX
    while (!this.connections.every(({ isOpen }) => isOpen)) {
      const [reason] = Object.keys(this.recorder.errors)
      if (reason !== undefined || performance.now() > endMs)
        throw this.createConnectError(`${reason ?? 'it sends no SETTINGS'}.`)
      await sleep(5)
    }
    this.isRunning = true
    this.beginMs = performance.now()
    if (this.options.ratePerSec > 0) this.clock.start(this.options.ratePerSec)
    else for (const connection of this.connections) this.fill(connection, this.beginMs)
  }

  /** Makes no further calls, waits for those in flight and closes all connections. */
  async stop(): Promise<void> {
    if (this.options.ratePerSec > 0) {
      this.startDueCalls(this.recorder.toMs)
      this.countUnmade()
    }
    this.isRunning = false
    this.isStopping = true
    this.clock.stop()
    const endMs = performance.now() + DRAIN_MS_MAX
    const all = () => [...this.connections, ...this.closing]
    while (all().some(({ inFlight }) => inFlight > 0) && performance.now() < endMs) await sleep(1)
    for (const connection of all()) {
      for (let i = 0; i < connection.inFlight; i++)
        this.recorder.addFailure(`no response within ${DRAIN_MS_MAX / 1_000} s`)
      connection.close()
    }
  }

  onResponse(dueMs: number, nowMs: number, code: number): void {
    this.recorder.addResponse(dueMs, nowMs, code)
  }

  onFailure(_dueMs: number, reason: string): void {
    this.recorder.addFailure(reason)
  }

  onRefused(): void {
    this.recorder.refused++
  }

  onReadEnd(connection: Connection, nowMs: number): void {
    if (this.isRunning && this.options.ratePerSec === 0) this.fill(connection, nowMs)
    else if (this.isRunning) this.startDueCalls(nowMs)
    if (this.closing.size > 0 && connection.inFlight === 0) this.closing.delete(connection)
  }

  onClosing(connection: Connection, reason: string): void {
    if (!this.isRunning) {
      if (!this.isStopping) this.recorder.addFailure(reason)
      return
    }
    if (connection.inFlight > 0) this.closing.add(connection)
    this.recorder.reconnects++
    void this.reconnect(connection, reason)
  }

  private async reconnect(old: Connection, reason: string): Promise<void> {
    this.reconnecting++
    await sleep(RECONNECT_MS)
    while (this.isRunning) {
      try {
        const connection = await dial(this.options, this)
        this.connections[this.connections.indexOf(old)] = connection
        this.reconnecting--
        if (this.options.ratePerSec === 0) this.fill(connection, performance.now())
        return
      } catch (error) {
        this.recorder.addFailure(`cannot connect again (${reason}): ${(error as Error).message}`)
        await sleep(RECONNECT_MS)
      }
    }
  }

  private fill(connection: Connection, nowMs: number): void {
    for (let free = connection.free; free > 0; free--) connection.start(nowMs)
    connection.flush()
  }

  /** Open loop: makes the calls that are due and returns the ms until the next one is. Without a free stream responses trigger it. */
  private onClock(): number {
    const nowMs = performance.now()
    this.startDueCalls(nowMs)
    const restMs = this.dueMs(this.sent) - nowMs
    return restMs < 0 ? BLOCKED_MS : restMs
  }

  /** Makes the calls that are due, as long as streams are free. */
  private startDueCalls(nowMs: number): void {
    const { ratePerSec, backlogMax } = this.options
    const due = Math.floor(((nowMs - this.beginMs) * ratePerSec) / 1_000) + 1
    if (due <= this.sent) return
    if (due - this.sent > backlogMax) {
      if (this.dueMs(this.sent) >= this.recorder.fromMs) this.countDropped(due - this.sent - backlogMax)
      this.sent = due - backlogMax
    }
    while (this.sent < due) {
      const connection = this.nextFree()
      if (connection === null) break
      const dueMs = this.dueMs(this.sent)
      const isHeld = this.sent < this.heldBelow
      if (this.recorder.isCounted(dueMs, nowMs)) {
        if (isHeld) this.recorder.held++
        else this.recorder.lag.add(nowMs - dueMs)
      }
      connection.start(dueMs)
      this.unflushed.push(connection)
      this.sent++
    }
    if (this.sent < due) this.heldBelow = due
    for (const connection of this.unflushed) connection.flush()
    this.unflushed.length = 0
  }

  /** Counts due calls of the window that were not made, because the server was too slow. */
  private countUnmade(): void {
    const { fromMs, toMs } = this.recorder
    const callAt = (ms: number) => Math.ceil(((ms - this.beginMs) * this.options.ratePerSec) / 1_000)
    this.countDropped(Math.max(0, callAt(toMs) - Math.max(this.sent, callAt(fromMs))))
  }

  private countDropped(calls: number): void {
    this.recorder.dropped += calls
    if (this.reconnecting >= this.connections.length) this.recorder.unconnected += calls
  }

  private dueMs(call: number): number {
    return this.beginMs + (call * 1_000) / this.options.ratePerSec
  }

  private nextFree(): Connection | null {
    const { connections } = this
    for (let tries = 0; tries < connections.length; tries++) {
      this.nextIndex = this.nextIndex + 1 < connections.length ? this.nextIndex + 1 : 0
      if (connections[this.nextIndex].free > 0) return connections[this.nextIndex]
    }
    return null
  }

  private createConnectError(what: string, cause?: unknown): ConfigurationError {
    const { protocol, host, port } = this.options.endpoint
    const fix =
      protocol === 'grpc' ? 'Is a gRPC server without TLS there?' : 'Is an HTTP server without TLS there?'
    return new ConfigurationError(
      { code: 'LOAD_CONNECT', where: `${protocol}://${host}:${port}`, what, fix },
      { cause },
    )
  }
}
