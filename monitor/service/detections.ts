/**
 * Between the desk, where detections wait, and the prober, which runs them.
 *
 *     desk.take ──► prober: detect ──► step, step … ──► desk.progress ──► detected ──► desk.finish
 *                     └── the desk has given it up meanwhile ──► prober: cancel
 *
 * While there is no prober, for some seconds after one broke, they wait on.
 */
import type { Desk } from '../api/detections/desk.ts'
import { type Detection, PENDING_STEPS, type Step } from '../api/detections/detection.ts'
import type { FromProber } from '../prober/words.ts'
import type { ProberHost } from './prober-host.ts'
import { resultView } from './result-view.ts'

interface Running {
  steps: Step[]
}

export class Detections {
  private readonly desk: Desk
  private readonly vantage: string
  private readonly prober: Pick<ProberHost, 'isThere' | 'send'>
  private readonly slugOf: (detection: Detection) => string | null
  private readonly running = new Map<string, Running>() // as many as the desk lets run

  constructor(
    desk: Desk,
    vantage: string,
    prober: Pick<ProberHost, 'isThere' | 'send'>,
    slugOf: (detection: Detection) => string | null,
  ) {
    this.desk = desk
    this.vantage = vantage
    this.prober = prober
    this.slugOf = slugOf
  }

  /** Whenever one may have come or gone. */
  start(): void {
    while (this.prober.isThere) {
      const next = this.desk.take()
      if (next === null) return
      this.running.set(next.id, { steps: [...PENDING_STEPS] })
      this.prober.send({ kind: 'detect', id: next.id, url: next.targetKey, slug: this.slugOf(next) })
    }
  }

  step({ id, step }: Extract<FromProber, { kind: 'step' }>): void {
    const running = this.running.get(id)
    if (!running) return
    running.steps = running.steps.map((each) => (each.name === step.name ? step : each))
    if (this.desk.progress(id, running.steps)) return
    this.running.delete(id)
    this.prober.send({ kind: 'cancel', id })
  }

  ended({ id, result, failure }: Extract<FromProber, { kind: 'detected' }>): void {
    this.running.delete(id)
    const outcome = result
      ? { result: resultView(result, this.vantage) }
      : { failure: failure ?? 'internal_error' }
    this.desk.finish(id, outcome)
    this.start()
  }

  /** The prober has gone and takes what it ran with it. */
  lost(): void {
    for (const id of this.running.keys()) this.desk.finish(id, { failure: 'internal_error' })
    this.running.clear()
  }
}
