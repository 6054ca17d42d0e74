/**
 * The queue of detections, and their state (spec 3.4, 3.5, 4.5).
 *
 *     submit ──► [queue, 100] ──► take ─► running, at most 4 ──► progress, finish
 *        │  same target, unfinished or finished within 10 minutes: that detection   └─► held-polls.ts: wake
 *        └─ target probed recently: its last result, or `target_cooldown`
 *
 * Checks all bounds on submissions, in the order of spec 1.2: policy, pending, queue. Unfinished detections are in memory and,
 * on every change, written to the store; finished ones stay in memory up to FINISHED_MAX and in the store for 7 days.
 * Everything runs on one thread, so a check holds until the next await; after a read of the store it is repeated.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { ApiError, retryAfter } from '../api/errors.ts'
import { UUID_V7 } from '../api/schema/build.ts'
import { DAY_SEC } from '../scoring/bucket.ts'
import { DETECTION_KEPT_SEC } from '../storage/detections.ts'
import type { DetectionRow } from '../storage/rows.ts'
import type { Store } from '../storage/store.ts'
import { Cooldown } from './cooldown.ts'
import {
  type Detection,
  type FailureCode,
  fromDetectionRow,
  getUuidTimeSec,
  isFinished,
  PENDING_STEPS,
  type Step,
  toDetectionRow,
  uuidV7,
} from './detection.ts'
import { HeldPolls } from './held-polls.ts'
import type { DetectionTarget } from './target.ts'

const PENDING_PER_CLIENT = 2
const QUEUE_WAIT_SEC = 120
const RUN_SEC = 45
const FINISHED_MAX = 1_000 // in memory; others are read from the store
const ID = new RegExp(UUID_V7)

export interface DetectionQueueOptions {
  store: Pick<Store, 'read' | 'write'>
  nowMs: () => number
  reuseSec: number // DETECTION_REUSE_S
  queueMax: number // DETECTION_QUEUE
  runningMax: number // DETECTION_CONCURRENCY
  onQueued?: () => void // a detection can be taken
}

export class DetectionQueue {
  readonly waiting = new HeldPolls()
  private readonly options: DetectionQueueOptions
  private readonly unfinished = new Map<string, Detection>() // by id, oldest first; at most queueMax + runningMax
  private readonly finished = new LRUCache<string, Detection>({ max: FINISHED_MAX })
  private readonly cooldown = new Cooldown()
  private hashKey = randomBytes(32)
  private hashDay = 0

  constructor(options: DetectionQueueOptions) {
    this.options = options
  }

  /** Returns a new detection, or a known one of the same target. Throws ApiError. */
  async submit(target: DetectionTarget, client: string): Promise<Detection> {
    const known = this.findUnfinished(target) ?? (await this.findNewest(target)) ?? null
    const nowSec = this.nowSec()
    const joined = this.findUnfinished(target)
    if (joined) return joined
    const agoSec = known?.finishedAtSec == null ? null : nowSec - known.finishedAtSec
    if (known && agoSec !== null && Math.abs(agoSec) < this.options.reuseSec) return known // negative: the clock was set back
    const waitSec = this.cooldown.waitSec(target.host, nowSec)
    if (waitSec > 0 && known !== null && isFinished(known)) return known
    if (waitSec > 0) {
      const text = 'url: this host, or its domain, was probed too often; try again later'
      throw new ApiError('target_cooldown', text, retryAfter(waitSec))
    }
    this.checkRoom(client)
    this.cooldown.add(target.host, nowSec)
    return this.add(target, client)
  }

  /** Throws ApiError. */
  async find(id: string): Promise<Detection> {
    if (!ID.test(id)) throw notFound()
    const known = this.unfinished.get(id) ?? this.finished.get(id)
    const isExpired = getUuidTimeSec(id) + DETECTION_KEPT_SEC <= this.nowSec()
    if (isExpired) throw new ApiError('detection_expired', 'this detection is no longer kept')
    if (known) return known
    const row = await this.options.store.read('detection', id)
    if (row === null) throw notFound()
    return this.unfinished.get(id) ?? fromDetectionRow(row)
  }

  /** 1 = next; null unless queued. */
  getPosition({ id, status }: Detection): number | null {
    if (status !== 'queued') return null
    const queued = [...this.unfinished.values()].filter((each) => each.status === 'queued')
    const index = queued.findIndex((each) => each.id === id)
    return index < 0 ? null : index + 1
  }

  get counts(): { queued: number; running: number } {
    const running = [...this.unfinished.values()].filter(({ status }) => status === 'running').length
    return { queued: this.unfinished.size - running, running }
  }

  /** The next one to run; null when none is queued or runningMax run. The caller must `finish` it. */
  take(): Detection | null {
    const all = [...this.unfinished.values()]
    if (all.filter(({ status }) => status === 'running').length >= this.options.runningMax) return null
    const next = all.find(({ status }) => status === 'queued')
    return next ? this.change(next, { status: 'running', startedAtSec: this.nowSec() }) : null
  }

  /** False: it has ended meanwhile, and need not be continued. */
  progress(id: string, steps: readonly Step[]): boolean {
    const detection = this.unfinished.get(id)
    if (detection) this.change(detection, { steps })
    return detection !== undefined
  }

  finish(id: string, outcome: { result: unknown } | { failure: FailureCode }): void {
    const detection = this.unfinished.get(id)
    if (!detection) return
    const status = 'result' in outcome ? 'done' : 'failed'
    const steps = detection.steps.map(endStep)
    this.change(detection, { ...outcome, steps, status, finishedAtSec: this.nowSec(), client: null })
  }

  /** To be called about once a second: fails detections that were queued or ran too long. */
  tick(): void {
    const nowSec = this.nowSec()
    for (const { id, status, submittedAtSec, startedAtSec } of [...this.unfinished.values()]) {
      const isQueued = status === 'queued'
      if (isQueued && submittedAtSec + QUEUE_WAIT_SEC <= nowSec) this.finish(id, { failure: 'queue_timeout' })
      else if (!isQueued && startedAtSec! + RUN_SEC <= nowSec)
        this.finish(id, { failure: 'deadline_exceeded' })
    }
  }

  /** At the start: the unfinished detections of the store (`restart-detections`), oldest first. */
  restore(rows: readonly DetectionRow[]): void {
    for (const row of rows) {
      const detection = fromDetectionRow(row)
      this.unfinished.set(row.id, detection)
      this.cooldown.add(detection.host, row.submittedAtSec)
    }
    this.tick()
  }

  /** Releases all held requests. Running detections stay running: the next start queues them again. */
  close(): void {
    this.waiting.close()
  }

  private checkRoom(client: string): void {
    const all = [...this.unfinished.values()]
    if (all.filter((each) => each.client === client).length >= PENDING_PER_CLIENT) {
      const text = `you have ${PENDING_PER_CLIENT} unfinished detections; wait for one of them`
      throw new ApiError('too_many_pending', text)
    }
    if (all.filter(({ status }) => status === 'queued').length >= this.options.queueMax) {
      throw new ApiError('queue_full', 'too many detections are queued; try again later')
    }
  }

  private add(target: DetectionTarget, client: string): Detection {
    const nowMs = this.options.nowMs()
    const detection: Detection = {
      id: uuidV7(nowMs),
      targetKey: target.key,
      host: target.host,
      status: 'queued',
      version: 1,
      submittedAtSec: Math.floor(nowMs / 1_000),
      startedAtSec: null,
      finishedAtSec: null,
      client,
      clientHash: this.hashClient(client),
      steps: PENDING_STEPS,
      result: null,
      failure: null,
    }
    this.keep(detection)
    this.options.onQueued?.()
    return this.unfinished.get(detection.id) ?? detection // onQueued may have taken it
  }

  /** Detections are immutable: a change makes a new object with the next version. */
  private change(detection: Detection, changes: Partial<Detection>): Detection {
    const next = { ...detection, ...changes, version: detection.version + 1 }
    this.keep(next)
    return next
  }

  private keep(detection: Detection): void {
    if (isFinished(detection)) {
      this.unfinished.delete(detection.id)
      this.finished.set(detection.id, detection)
    } else this.unfinished.set(detection.id, detection)
    this.options.store.write({ kind: 'detection', detection: toDetectionRow(detection) })
    this.waiting.wake(detection.id)
  }

  private findUnfinished({ key }: DetectionTarget): Detection | undefined {
    for (const each of this.unfinished.values()) if (each.targetKey === key) return each
    return undefined
  }

  /** The newest finished one of this target; one in memory is newer than any row. */
  private async findNewest({ key }: DetectionTarget): Promise<Detection | null> {
    let found: Detection | null = null
    for (const each of this.finished.values()) {
      if (each.targetKey === key && each.id > (found?.id ?? '')) found = each
    }
    if (found) return found
    const row = await this.options.store.read('newestDetection', key)
    const isKept = row !== null && row.submittedAtSec + DETECTION_KEPT_SEC > this.nowSec()
    return isKept ? fromDetectionRow(row) : null
  }

  /** The key is random and dropped after a day: rows distinguish clients within a day and identify none. */
  private hashClient(client: string): string {
    const day = Math.floor(this.nowSec() / DAY_SEC)
    if (day !== this.hashDay) {
      this.hashDay = day
      this.hashKey = randomBytes(32)
    }
    return createHmac('sha256', this.hashKey).update(client).digest('hex').slice(0, 32)
  }

  private nowSec(): number {
    return Math.floor(this.options.nowMs() / 1_000)
  }
}

/** A step that did not end in time was skipped. */
function endStep(step: Step): Step {
  return step.status === 'pending' || step.status === 'running' ? { ...step, status: 'skipped' } : step
}

function notFound(): ApiError {
  return new ApiError('detection_not_found', 'there is no detection with this id')
}
