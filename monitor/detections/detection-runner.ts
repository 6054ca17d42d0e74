/**
 * Between the desk, where detections wait, and the prober, which runs them.
 *
 *     desk.take ──► prober: detect ──► step, step … ──► desk.progress ──► detected ──► desk.finish
 *                     └── the desk has given it up meanwhile ──► prober: cancel
 *
 * While there is no prober, for some seconds after one broke, they wait on.
 */

import type { FromProber } from '../prober/messages.ts'
import type { ProberSupervisor } from '../service/prober-supervisor.ts'
import { resultView } from '../service/result-view.ts'
import { type Detection, PENDING_STEPS, type Step } from './detection.ts'
import type { DetectionQueue } from './detection-queue.ts'

interface Running {
  steps: Step[]
}

export class DetectionRunner {
  private readonly queue: DetectionQueue
  private readonly vantage: string
  private readonly prober: Pick<ProberSupervisor, 'isThere' | 'send'>
  private readonly getSlug: (detection: Detection) => string | null
  private readonly running = new Map<string, Running>() // as many as the desk lets run

  constructor(
    queue: DetectionQueue,
    vantage: string,
    prober: Pick<ProberSupervisor, 'isThere' | 'send'>,
    getSlug: (detection: Detection) => string | null,
  ) {
    this.queue = queue
    this.vantage = vantage
    this.prober = prober
    this.getSlug = getSlug
  }

  /** Whenever one may have come or gone. */
  start(): void {
    while (this.prober.isThere) {
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

  /** The prober has gone and takes what it ran with it. */
  lost(): void {
    for (const id of this.running.keys()) this.queue.finish(id, { failure: 'internal_error' })
    this.running.clear()
  }
}
