/**
 * Two detections whose addresses the demo prints: one that is done, and one that waits for the monitor and then runs for a
 * while. Both are written to the database directly, so neither costs a visitor's quota: the waiting one before the monitor
 * starts, the done one once it is ready.
 */
import {
  type Detection,
  PENDING_STEPS,
  type Step,
  toDetectionRow,
  uuidV7,
} from '../../../monitor/detections/detection.ts'
import { resultView } from '../../../monitor/detections/result-view.ts'
import { detect } from '../../../monitor/probe/detect.ts'
import type { ProbeContext } from '../../../monitor/probe/probe.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { DEMO_VANTAGE } from './settings.ts'

/** Detects `url` now. */
export async function doneDetection(context: ProbeContext, url: string): Promise<Detection> {
  const submitted = newDetection(url, context.nowMs())
  let steps: readonly Step[] = PENDING_STEPS
  const found = await detect(context, {
    ...{ url, region: DEMO_VANTAGE.region, isSingleVantage: false },
    onStep: (step) => {
      steps = steps.map((each) => (each.name === step.name ? step : each))
    },
  })
  if (found.status !== 'done') throw new Error(`the demo's detection of ${url} failed: ${found.code}`)
  const result = resultView(found.result, DEMO_VANTAGE.name)
  const startedAtSec = submitted.submittedAtSec
  const finishedAtSec = Math.floor(context.nowMs() / 1_000)
  return {
    ...submitted,
    status: 'done',
    version: 2 + 2 * steps.length,
    startedAtSec,
    finishedAtSec,
    steps,
    result,
  }
}

/** Queued; the monitor takes it up when it starts. */
export function newDetection(url: string, nowMs: number): Detection {
  return {
    id: uuidV7(nowMs),
    targetKey: url,
    host: new URL(url).hostname,
    status: 'queued',
    version: 1,
    submittedAtSec: Math.floor(nowMs / 1_000),
    startedAtSec: null,
    finishedAtSec: null,
    client: null,
    clientHash: 'demo',
    steps: PENDING_STEPS,
    result: null,
    failure: null,
  }
}

export function toWrite(detection: Detection): Write {
  return { kind: 'detection', detection: toDetectionRow(detection) }
}
