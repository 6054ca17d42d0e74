/**
 * Everything the monitor writes: one type per fact, named as in monitor/facts.ts.
 *
 *     prober, evaluation, detections ── Write ──► queue ── 500 rows or 200 ms ──► one transaction
 *
 * Every write is idempotent (a probe of the same second is ignored, others replace), so a batch without a response is sent
 * again, and an agent may repeat results (spec 6.5).
 */
import type { Observation, Outcome, Probe, Region, RegionState, Tier } from '../facts.ts'

export type Board = 'red' | 'black'

/** Key of the meta value with the day for which boards were last made: an empty board has no row. */
export const BOARDS_DAY = 'boards_day'

export type Write =
  | { kind: 'probe'; siteId: number; vantageId: number; probe: Probe; dueSec?: number } // of agents: the site's interval
  | { kind: 'observation'; siteId: number; observation: Observation; models: ModelSighting[] | null }
  | RegionWrite
  | ScoreWrite
  | IncidentWrite
  | { kind: 'board'; daySec: number; board: Board; rows: BoardRow[] } // replaces that day's board
  | { kind: 'detection'; detection: DetectionRow }
  | { kind: 'vantage-seen'; vantageId: number; atSec: number }
  | ScreenshotWrite
  | { kind: 'meta'; key: string; value: string }

/** One model of one site in a full probe; `key` is what models are compared by (spec 7.1). */
export interface ModelSighting {
  key: string
  id: string
  isClaimed: boolean
  isVerified: boolean
}

export interface RegionWrite {
  kind: 'region'
  siteId: number
  region: Region
  state: RegionState
  sinceSec: number
  pending: { state: RegionState['state']; count: number } | null // a change that must be observed once more
}

export interface ScoreWrite {
  kind: 'score'
  siteId: number
  tier: Tier
  tierSinceSec: number
  score: number
  facts: unknown // the scorer's own account, JSON; handed back as it is
}

/** Open while `endedAtSec` is null; known by site, region and start. */
export interface IncidentWrite {
  kind: 'incident'
  siteId: number
  region: Region | 'all'
  startedAtSec: number
  endedAtSec: number | null
  cause: string
  vantages: number
}

export interface BoardRow {
  siteId: number
  rank: number // from 1
  sinceSec: number
  reasons: string[] // strongest first
}

export interface DetectionRow {
  id: string // UUIDv7
  targetKey: string
  url: string
  status: 'queued' | 'running' | 'done' | 'failed'
  version: number // grows with every change; an older one never replaces a newer one
  submittedAtSec: number
  startedAtSec: number | null
  finishedAtSec: number | null
  clientHash: string
  resultJson: string | null // steps and result, as the detection's own code writes them
  errorCode: string | null
}

export interface ScreenshotWrite {
  kind: 'screenshot'
  siteId: number
  month: string // YYYY-MM
  path: string | null
  sha256: string | null
  width: number | null
  height: number | null
  takenAtSec: number | null
  error: string | null
}

/** How many rows of the database a write is worth: what batches and the queue are measured in. */
export function countRows(write: Write): number {
  if (write.kind === 'observation') return 1 + (write.models?.length ?? 0)
  if (write.kind === 'board') return Math.max(1, write.rows.length)
  return 1
}

export function getOutcome(write: Write): Outcome | null {
  return write.kind === 'probe' ? write.probe.outcome : null
}
