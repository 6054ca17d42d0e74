/**
 * One detection: in memory, as a row of the store, and in the API (spec 3.5).
 *
 *     queued ──► running ──► done      the target was measured, possibly as unreachable
 *                       └──► failed    it was not measured: target_not_allowed, queue_timeout, deadline_exceeded, …
 */
import { randomBytes } from 'node:crypto'
import { timestampOrNull } from '../api/site-view.ts'
import { timestamp } from '../scoring/probe-point.ts'
import { DETECTION_KEPT_SEC } from '../storage/detections.ts'
import type { DetectionRow } from '../storage/rows.ts'

// biome-ignore format: in the order of execution
export const STEPS = ['resolve', 'connect', 'tls', 'landing', 'listing', 'fingerprint', 'network', 'summary'] as const

export interface Step {
  name: (typeof STEPS)[number]
  status: 'pending' | 'running' | 'ok' | 'warn' | 'error' | 'skipped'
  ms: number | null
  detail: string | null // at most 160 characters
}

export type FailureCode = 'target_not_allowed' | 'queue_timeout' | 'deadline_exceeded' | 'internal_error'
const FAILURES: Record<FailureCode, string> = {
  target_not_allowed: 'the target is not at a public address',
  queue_timeout: 'it was queued too long',
  deadline_exceeded: 'it took too long',
  internal_error: 'internal server error',
}

export interface Detection {
  id: string // UUIDv7
  targetKey: string
  host: string
  status: DetectionRow['status']
  version: number // from 1; grows with every change
  submittedAtSec: number
  startedAtSec: number | null
  finishedAtSec: number | null
  client: string | null // in memory only, while it is unfinished; null = from before a restart
  clientHash: string
  steps: readonly Step[]
  result: unknown // DetectionResult of the schema (result-view.ts); null until done
  failure: FailureCode | null
}

export const PENDING_STEPS: readonly Step[] = STEPS.map((name) => ({
  name,
  status: 'pending',
  ms: null,
  detail: null,
}))

export function isFinished({ status }: Pick<Detection, 'status'>): boolean {
  return status === 'done' || status === 'failed'
}

export function detectionView(detection: Detection, queuePosition: number | null, siteSlug: string | null) {
  const { failure } = detection
  return {
    id: detection.id,
    url: detection.targetKey,
    status: detection.status,
    version: detection.version,
    submitted_at: timestamp(detection.submittedAtSec),
    started_at: timestampOrNull(detection.startedAtSec),
    finished_at: timestampOrNull(detection.finishedAtSec),
    expires_at: timestamp(detection.submittedAtSec + DETECTION_KEPT_SEC),
    queue_position: queuePosition,
    steps: detection.steps,
    result: detection.result,
    error: failure && { code: failure, message: FAILURES[failure] },
    site_slug: siteSlug,
  }
}

export function toDetectionRow(detection: Detection): DetectionRow {
  const { client, host, steps, result, failure, targetKey, ...row } = detection
  return {
    ...row,
    targetKey,
    url: targetKey,
    resultJson: JSON.stringify({ steps, result }),
    errorCode: failure,
  }
}

export function fromDetectionRow(row: DetectionRow): Detection {
  const { url, resultJson, errorCode, ...fields } = row
  const { steps, result } = JSON.parse(resultJson ?? '{}')
  return {
    ...fields,
    host: new URL(row.targetKey).hostname,
    client: null,
    steps: steps ?? PENDING_STEPS,
    result: result ?? null,
    failure: errorCode as FailureCode | null,
  }
}

/** RFC 9562, version 7: 48 bits of milliseconds, the rest random. */
export function uuidV7(nowMs: number): string {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(nowMs, 0, 6)
  bytes[6] = (bytes[6] & 0x0f) | 0x70
  bytes[8] = (bytes[8] & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** When an id was created, epoch seconds. */
export function getUuidTimeSec(id: string): number {
  return Math.floor(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16) / 1_000)
}
