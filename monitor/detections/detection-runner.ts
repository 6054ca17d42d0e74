/**
 * Passes queued detections to the prober, and its messages to the queue.
 *
 *     queue.take ──► prober: detect ──► step, step … ──► queue.progress ──► detected ──► queue.finish
 *                      └── ended in the queue meanwhile ──► prober: cancel
 *
 * While no prober runs (some seconds after a failure) detections stay queued.
 */
import type { FromProber, ToProber } from '../prober/messages.ts'
import { type Detection, PENDING_STEPS, type Step } from './detection.ts'
import type { DetectionQueue } from './detection-queue.ts'
import { resultView } from './result-view.ts'

interface Running {
  steps: Step[]
}

/** What is needed of service/prober-supervisor.ts. */
export interface DetectionProber {
  readonly hasThread: boolean
  send(message: ToProber): void
}

export class DetectionRunner {
  private readonly queue: DetectionQueue
  private readonly vantage: string
  private readonly prober: DetectionProber
  private readonly getSlug: (detection: Detection) => string | null
  private readonly running = new Map<string, Running>() // by id; bounded by DETECTION_CONCURRENCY

  constructor(
    queue: DetectionQueue,
    vantage: string,
    prober: DetectionProber,
    getSlug: (detection: Detection) => string | null,
  ) {
    this.queue = queue
    this.vantage = vantage
    this.prober = prober
    this.getSlug = getSlug
  }

  /** Starts what can start; to be called whenever a detection was queued or has ended, and each second. */
  start(): void {
    while (this.prober.hasThread) {
      const next = this.queue.take()
      if (next === null) return
      this.running.set(next.id, { steps: [...PENDING_STEPS] })
      this.prober.send({ kind: 'detect', id: next.id, url: next.targetKey, slug: this.getSlug(next) })
    }
  }

  step({ id, step }: Extract<FromProber, { kind: 'step' }>): void {
    const running = this.running.get(id)
    if (!running) return
    running.steps = running.steps.map((each) => (each.name === step.name ? step : each))
    if (this.queue.progress(id, running.steps)) return
    this.running.delete(id)
    this.prober.send({ kind: 'cancel', id })
  }

  ended({ id, result, failure }: Extract<FromProber, { kind: 'detected' }>): void {
    this.running.delete(id)
    const outcome = result
      ? { result: resultView(result, this.vantage) }
      : { failure: failure ?? 'internal_error' }
    this.queue.finish(id, outcome)
    this.start()
  }

  /** The prober ended: what it ran has failed. */
  lost(): void {
    for (const id of this.running.keys()) this.queue.finish(id, { failure: 'internal_error' })
    this.running.clear()
  }
}
