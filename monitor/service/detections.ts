/**
 * Between the desk, where detections wait, and the prober, which runs them.
 *
 *     desk.take ──► prober: detect ──► step, step … ──► desk.progress ──► detected ──► desk.finish
 *                     └── the desk has given it up meanwhile ──► prober: cancel
 */
import type { Desk } from '../api/detections/desk.ts'
import { type Detection, PENDING_STEPS, type Step } from '../api/detections/detection.ts'
import type { FromProber, ToProber } from '../prober/words.ts'
import { resultView } from './result-view.ts'

interface Running {
  steps: Step[]
}

export class Detections {
  private readonly desk: Desk
  private readonly vantage: string
  private readonly send: (message: ToProber) => boolean // false: there is no prober at the moment
  private readonly slugOf: (detection: Detection) => string | null
  private readonly running = new Map<string, Running>() // as many as the desk lets run

  constructor(
    desk: Desk,
    vantage: string,
    send: (message: ToProber) => boolean,
    slugOf: (detection: Detection) => string | null,
  ) {
    this.desk = desk
    this.vantage = vantage
    this.send = send
    this.slugOf = slugOf
  }

  /** Whenever one may have come or gone. */
  start(): void {
    for (let next = this.desk.take(); next !== null; next = this.desk.take()) {
      this.running.set(next.id, { steps: [...PENDING_STEPS] })
      const isTaken = this.send({ kind: 'detect', id: next.id, url: next.targetKey, slug: this.slugOf(next) })
      if (!isTaken) this.lost()
    }
  }

  step({ id, step }: Extract<FromProber, { kind: 'step' }>): void {
    const running = this.running.get(id)
    if (!running) return
    running.steps = running.steps.map((each) => (each.name === step.name ? step : each))
    if (this.desk.progress(id, running.steps)) return
    this.running.delete(id)
    this.send({ kind: 'cancel', id })
  }

  ended({ id, result, failure }: Extract<FromProber, { kind: 'detected' }>): void {
    const steps = this.running.get(id)?.steps.map(ended)
    this.running.delete(id)
    const outcome = result
      ? { result: resultView(result, this.vantage) }
      : { failure: failure ?? 'internal_error' }
    this.desk.finish(id, { ...(steps && { steps }), ...outcome })
    this.start()
  }

  /** The prober has gone and takes what it ran with it. */
  lost(): void {
    for (const id of this.running.keys()) this.desk.finish(id, { failure: 'internal_error' })
    this.running.clear()
  }
}

/** Nothing runs or waits in what is over. */
function ended(step: Step): Step {
  return step.status === 'pending' || step.status === 'running' ? { ...step, status: 'skipped' } : step
}
