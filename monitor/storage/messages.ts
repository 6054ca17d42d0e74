/**
 * Messages between the store (its owner's thread) and the writer's thread.
 *
 *     owner ── batch, tick, request, close ──► writer         one batch and one tick at a time, so neither
 *     owner ◄── ready, wrote, ticked, response, snapshot, closed ── writer   port holds more than a few messages
 */
import type { CatalogueSite, Region } from '../facts.ts'
import type { SyncResult } from './catalogue-transaction.ts'
import type { ModelIndexDelta } from './model-index.ts'
import type { DetectionRow, Write } from './rows.ts'
import type { SnapshotRows } from './snapshot.ts'

export type ToWriter =
  | { kind: 'batch'; writes: Write[] }
  | { kind: 'tick'; nowSec: number }
  | { kind: 'request'; id: number; request: WriterRequest }
  | { kind: 'close' }

export type FromWriter =
  | { kind: 'ready' }
  | { kind: 'wrote'; refused: number; why: string | null; error: string | null } // error: none of it, try again
  | { kind: 'ticked' }
  | { kind: 'response'; id: number; value?: unknown; error?: Error }
  | { kind: 'snapshot'; rows: SnapshotRows; models: ModelIndexDelta }
  | { kind: 'log'; level: 'info' | 'warning' | 'error'; text: string }
  | { kind: 'closed' }

/** Each sees the batches sent before it. */
export type WriterRequest =
  | { kind: 'sync-catalogue'; sites: readonly CatalogueSite[]; nowSec: number }
  | { kind: 'vantage'; name: string; region: Region; country: string | null }
  | { kind: 'restart-detections'; nowSec: number }
  | { kind: 'backup'; path: string }

export interface WriterResponses {
  'sync-catalogue': SyncResult
  vantage: number // its id; created if it did not exist, region and country updated
  'restart-detections': DetectionRow[] // queued ones, oldest first
  backup: string // the path
}

export interface WriterData {
  path: string
  isRunner: boolean
}
