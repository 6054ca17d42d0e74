/**
 * Messages between main and its workers, over one MessagePort per worker.
 *
 *     main                              worker
 *       ServeTask ───────────────────►    connects its store, listens
 *            ◄──────────────── ready      on all of its addresses
 *       rules, health, tls ──────────►
 *       stats ───────────────────────►    responds within one turn of its event loop
 *            ◄──────────────── stats      also sent once when the thread ends
 *            ◄─────────── store, log
 *       ping ────────────────────────►    every 2.5 s
 *            ◄───────────────── pong      within one turn of its event loop
 *       ending ──────────────────────►    tells clients to disconnect
 *       drain ───────────────────────►    stops listening, finishes, closes; then its task resolves
 *
 * No message is sent per request.
 */
import type { MessagePort } from 'node:worker_threads'
import type { RulesImage } from '../config/rules.ts'
import type { Settings } from '../settings/parse.ts'
import type { Deltas } from '../stats/stats.ts'
import type { InstanceHealth } from '../stores/store-health.ts'
import type { HealthState } from './health.ts'

/** The argument of a worker's only task. Its content can be cloned or is shared memory. */
export interface ServeTask {
  index: number // 0 to WORKERS-1; a replacement keeps the index of its predecessor
  settings: Settings // ports are resolved, never 0
  port: MessagePort
  memoryTable: SharedArrayBuffer | null // the counters with BACKEND_TYPE=memory, else those of the policy local
  rules: RulesImage | null
  health: HealthState
  tls: PortTls | null // null = the gRPC port speaks plain text
}

/** TLS of the gRPC port: PEM texts that main has read and verified. */
export interface PortTls {
  cert: string // the server's chain
  key: string
  clientCa: string[] | null // in addition to the system's; null = no client certificates required
  clientSan: string // the name that client certificates must contain; empty = any
}

export type ToWorker =
  | { kind: 'rules'; rules: RulesImage }
  | { kind: 'health'; health: HealthState }
  | { kind: 'tls'; tls: PortTls } // for connections from now on
  | { kind: 'stats' }
  | { kind: 'ping' }
  | { kind: 'ending' } // ports stay open for DRAIN_DELAY; clients are asked to disconnect
  | { kind: 'drain'; timeoutMs: number }
  | { kind: 'crash' } // with NODE_ENV=test only: throws, to test the restart
  | { kind: 'stall'; ms: number } // with NODE_ENV=test only: blocks the thread

export type FromWorker =
  | { kind: 'ready' }
  | { kind: 'pong' } // its event loop turns
  | { kind: 'stats'; deltas: Deltas }
  | { kind: 'store'; instances: readonly InstanceHealth[] } // whether it works, on every change
  | { kind: 'log'; level: LogLevel; message: string }

export type LogLevel = 'fatal' | 'error' | 'warning' | 'info' | 'debug'
/** `fields`: members of the line in addition to its message. */
export type Log = (level: LogLevel, message: string, fields?: LogFields) => void
export type LogFields = Readonly<Record<string, string | number>>
