/**
 * The built-in gRPC frontend (`GRPC_FRONTEND=http2`): HTTP/2 with prior knowledge on sockets it is given, for unary
 * calls and a few streams. Each call costs as little as the protocol allows.
 *
 *     socket ─► frame-reader ─► receiver ─► request-headers-decoder ─► stream ─► service
 *     socket ◄─ output ◄──── connection ◄────────────────────────────────┘   one write per turn of the event loop
 *
 * Not supported, since gRPC clients do not need it: HTTP/1.1 and Upgrade, server push, priorities, a dynamic table for
 * response headers.
 */
import type { Socket } from 'node:net'
import { Garbage } from '../../../engine/runtime/release-memory.ts'
import { type GrpcFrontend, type GrpcFrontendOptions, HANDSHAKE_MS } from '../frontend.ts'
import { PING_IDLE_MS, PING_TIMEOUT_MS, STALLED_MS, THROTTLED_RESUMED_MAX, TURN_BYTES } from './bounds.ts'
import { Connection, type ConnectionHost } from './connection.ts'
import { ConnectionQuotas } from './connection-quota.ts'
import { Deadlines } from './deadlines.ts'
import { Inflater } from './inflater.ts'
import { createHeaderClassifier, type HeaderClassifier } from './request-head.ts'
import { Routes } from './routes.ts'

const SWEEP_MS = 1_000

/** The times are changed by tests only. */
export interface Http2Options extends GrpcFrontendOptions {
  pingIdleMs?: number
  pingTimeoutMs?: number
  stalledMs?: number
  sweepMs?: number
}

export function http2Frontend(options: Http2Options): GrpcFrontend {
  const server = new Http2Server(options)
  return {
    accept: (socket) => server.accept(socket),
    drain: (timeoutMs) => server.drain(timeoutMs),
    close: () => server.close(),
    load: () => ({ connections: server.connectionsCount, calls: server.quotas.callsCount }),
  }
}

/** The connections of one thread and what they share. */
export class Http2Server implements ConnectionHost {
  readonly options: Required<Omit<Http2Options, 'streams' | 'getMetrics' | 'headers'>>
  readonly routes: Routes
  readonly headers: readonly string[] // which services read
  readonly headerClassifier: HeaderClassifier
  readonly deadlines = new Deadlines()
  readonly inflater = new Inflater()
  readonly garbage = new Garbage('all') // of connections, and of calls that ended with them
  readonly quotas = new ConnectionQuotas()
  private readonly connections = new Set<Connection>() // bounded by the listener
  private connectionsToFlush: Connection[] = []
  private throttledConnections: Connection[] = [] // each at most once
  private turnBytes = 0
  private sweeper: NodeJS.Timeout | null = null
  private isDraining = false
  private onEmpty: (() => void) | null = null

  constructor(options: Http2Options) {
    this.options = {
      handshakeMs: HANDSHAKE_MS,
      connectionAgeMs: 0,
      connectionAgeGraceMs: 0,
      pingIdleMs: PING_IDLE_MS,
      pingTimeoutMs: PING_TIMEOUT_MS,
      stalledMs: STALLED_MS,
      sweepMs: SWEEP_MS,
      ...options,
    }
    this.routes = new Routes(options)
    this.headers = options.headers ?? []
    this.headerClassifier = createHeaderClassifier(this.headers)
  }

  get connectionsCount(): number {
    return this.connections.size
  }

  accept(socket: Socket): void {
    if (this.isDraining) {
      socket.destroy()
      return
    }
    this.connections.add(new Connection(this, socket))
    this.sweeper ??= setInterval(() => setImmediate(this.sweep), this.options.sweepMs).unref()
  }

  async drain(timeoutMs: number): Promise<void> {
    this.isDraining = true
    const emptied = new Promise<void>((resolve) => {
      this.onEmpty = resolve
    })
    for (const connection of this.connections) connection.drain()
    const timer = setTimeout(() => this.close(), timeoutMs)
    if (this.connections.size > 0) await emptied
    clearTimeout(timer)
    this.close()
  }

  close(): void {
    this.isDraining = true
    for (const connection of this.connections) connection.destroy()
    this.deadlines.close()
  }

  /** Flushes the connection's output when the JavaScript of this turn of the event loop has run. */
  scheduleFlush(connection: Connection): void {
    if (this.connectionsToFlush.push(connection) === 1) process.nextTick(this.flush)
  }

  /** Counts a large read. Returns false when this turn has read enough: the connection then pauses until its turn. */
  takeTurn(bytes: number, connection: Connection): boolean {
    if (this.turnBytes === 0) setImmediate(this.nextTurn)
    this.turnBytes += bytes
    if (this.turnBytes <= TURN_BYTES) return true
    this.throttledConnections.push(connection)
    return false
  }

  removeConnection(connection: Connection): void {
    this.connections.delete(connection)
    if (this.connections.size > 0) return
    if (this.sweeper !== null) clearInterval(this.sweeper)
    this.sweeper = null
    this.onEmpty?.()
  }

  private readonly flush = () => {
    const { connectionsToFlush } = this
    this.connectionsToFlush = []
    for (const connection of connectionsToFlush) connection.flush()
  }

  private readonly nextTurn = () => {
    for (const connection of this.throttledConnections.splice(0, THROTTLED_RESUMED_MAX))
      connection.onThrottleEnd()
    this.turnBytes = this.throttledConnections.length > 0 ? 1 : 0 // 1: the next turn is already scheduled
    if (this.throttledConnections.length > 0) setImmediate(this.nextTurn)
  }

  /** After a pause of this thread, what has arrived meanwhile is read first: setImmediate runs after sockets, timers before. */
  private readonly sweep = () => {
    const nowMs = performance.now()
    for (const connection of this.connections) connection.sweep(nowMs)
  }
}
