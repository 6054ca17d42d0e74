/**
 * ProbePoint: buckets and single probes as the API shows them (spec 2.2), member by member as on the wire.
 * An empty bucket or an inconclusive probe has no point: null, to be left out.
 */
import { type BucketStatus, ERROR_CODES, type ErrorCode, type Probe } from '../facts.ts'
import {
  addProbe,
  type Bucket,
  countProbes,
  emptyBucket,
  getAvailability,
  HOUR_SEC,
  toStatus,
} from './bucket.ts'
import { PHASES, type Phase, percentile } from './histogram.ts'

export interface ProbePoint {
  at: string
  window_s: number
  status: BucketStatus
  probes: number
  up: number
  degraded: number
  down: number
  availability: number
  http_status: number | null
  latency_ms: Record<Phase, number | null>
  errors: Partial<Record<ErrorCode, number>>
}

export function pointOfBucket(bucket: Bucket): ProbePoint | null {
  const availability = getAvailability([bucket])
  if (availability === null) return null
  const latency = PHASES.map((phase) => [phase, percentile(bucket.histogram, phase, 0.5)])
  return {
    at: timestamp(bucket.atSec),
    window_s: bucket.windowSec,
    status: toStatus(availability),
    probes: countProbes(bucket),
    up: bucket.up,
    degraded: bucket.degraded,
    down: bucket.down,
    availability: ratio(availability),
    http_status: mostFrequentStatus(bucket),
    latency_ms: Object.fromEntries(latency),
    errors: inOrder(bucket.errors),
  }
}

/** A single probe keeps its own timings, for any outcome. */
export function pointOfProbe(probe: Probe): ProbePoint | null {
  const bucket = emptyBucket(probe.atSec, HOUR_SEC)
  if (!addProbe(bucket, probe)) return null
  const latency = PHASES.map((phase) => [phase, probe.timings[`${phase}Ms`]])
  return { ...pointOfBucket(bucket)!, window_s: 0, latency_ms: Object.fromEntries(latency) }
}

/** `YYYY-MM-DDThh:mm:ssZ`, without fractions (spec 1). */
export function timestamp(atSec: number): string {
  return `${new Date(atSec * 1000).toISOString().slice(0, 19)}Z`
}

/** At most 4 decimals (spec 1). */
export function ratio(value: number): number {
  return Math.round(value * 10_000) / 10_000
}

/** The lowest of equally frequent ones, so that equal data gives equal bytes. */
function mostFrequentStatus({ statuses }: Bucket): number | null {
  let most: number | null = null
  for (const status of Object.keys(statuses)) {
    // Integer keys are iterated in ascending order.
    if (most === null || statuses[status] > statuses[most]) most = Number(status)
  }
  return most
}

function inOrder(errors: Bucket['errors']): Bucket['errors'] {
  return Object.fromEntries(ERROR_CODES.filter((code) => errors[code]).map((code) => [code, errors[code]]))
}
