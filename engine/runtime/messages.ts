/**
 * What main and its workers say to each other, over one MessagePort per worker.
 *
 *     main                              worker
 *       ServeTask ───────────────────►    connects its store, listens
 *            ◄──────────────── ready      on every address it was given
 *       rules, health, tls ──────────►
 *       stats ───────────────────────►    answers within one turn of its event loop
 *            ◄──────────────── stats      also sent unasked, once, when the thread ends
 *            ◄─────────── store, log
 *       ending ──────────────────────►    asks clients to go
 *       drain ───────────────────────►    stops listening, finishes, closes; then its task resolves
 *
 * No message is ever sent per request.
 */
import type { MessagePort } from 'node:worker_threads'
import type { RulesImage } from '../config/rules.ts'
import type { Settings } from '../settings/parse.ts'
import type { Deltas } from '../stats/stats.ts'
import type { InstanceHealth } from '../stores/store-health.ts'
import type { HealthState } from './health.ts'

/** The argument of a worker's one long task. Everything in it can be cloned or is shared memory. */
export interface ServeTask {
  index: number // 0 to WORKERS-1; a replacement keeps the number of the worker it follows
  settings: Settings // ports are resolved: never 0
  port: MessagePort
  memoryTable: SharedArrayBuffer | null // the counters, with BACKEND_TYPE=memory
  rules: RulesImage | null
  health: HealthState
  tls: PortTls | null // null = the gRPC port speaks plain text
}

/** TLS of the gRPC port: PEM texts that main has read and tried. */
export interface PortTls {
  cert: string // the server's chain
  key: string
  clientCa: string[] | null // beside the system's roots; null = callers are not asked for a certificate
  clientSan: string // the name theirs must hold; empty = any
}

export type ToWorker =
  | { kind: 'rules'; rules: RulesImage }
  | { kind: 'health'; health: HealthState }
  | { kind: 'tls'; tls: PortTls } // for connections from now on
  | { kind: 'stats' }
  | { kind: 'ending' } // ports stay open for DRAIN_DELAY, but clients are asked to go
  | { kind: 'drain'; timeoutMs: number }
  | { kind: 'crash' } // under NODE_ENV=test only: throws, so that tests see a worker die

export type FromWorker =
  | { kind: 'ready' }
  | { kind: 'stats'; deltas: Deltas }
  | { kind: 'store'; instances: readonly InstanceHealth[] } // whether it works, on every change
  | { kind: 'log'; level: LogLevel; message: string }

export type LogLevel = 'fatal' | 'error' | 'warning' | 'info' | 'debug'
/** `fields`: members of the line beside its message. */
export type Log = (level: LogLevel, message: string, fields?: LogFields) => void
export type LogFields = Readonly<Record<string, string | number>>
