/** A circuit breaker under an injected clock. */
import { type BreakerOptions, CircuitBreaker } from '../../../engine/stores/circuit-breaker.ts'

export const OPTIONS: BreakerOptions = {
  failuresInRow: 5,
  share: 0.5,
  windowMs: 2_000,
  latencyMs: 10,
  silenceMs: 50,
  probeIntervalMs: 200,
  successes: 2,
}

/** A breaker whose clock moves by `pass`, with its changes and the times of its probes. */
export class ClockedBreaker {
  nowMs = 1_000_000
  readonly changes: string[] = []
  readonly probesMs: number[] = []
  /** Called with each probe; null = the probe waits. */
  answer: ((nowMs: number) => boolean) | null = () => false
  waiting: ((isOk: boolean) => void)[] = []
  random = 0.5
  waitingSinceMs: number | null = null
  readonly breaker: CircuitBreaker
  private timers: { atMs: number; run: () => void }[] = []

  constructor(options: Partial<BreakerOptions> = {}) {
    this.breaker = new CircuitBreaker(
      { ...OPTIONS, ...options },
      {
        probe: (done) => {
          this.probesMs.push(this.nowMs)
          if (this.answer === null) this.waiting.push(done)
          else done(this.answer(this.nowMs))
        },
        waitingSinceMs: () => this.waitingSinceMs,
        onChange: () => this.changes.push(this.breaker.isOpen ? this.breaker.reason : 'closed'),
        nowMs: () => this.nowMs,
        random: () => this.random,
        schedule: (ms, run) => {
          const timer = { atMs: this.nowMs + ms, run }
          this.timers.push(timer)
          return () => {
            this.timers = this.timers.filter((each) => each !== timer)
          }
        },
      },
    )
  }

  get timersCount(): number {
    return this.timers.length
  }

  fail(count: number, reason = 'no reply'): void {
    for (let i = 0; i < count; i++) this.breaker.onFailure(reason)
  }

  succeed(count: number, tookMs = 1): void {
    for (let i = 0; i < count; i++) this.breaker.onSuccess(tookMs)
  }

  pass(ms: number): void {
    const endMs = this.nowMs + ms
    for (;;) {
      const next = this.timers.filter(({ atMs }) => atMs <= endMs).sort((a, b) => a.atMs - b.atMs)[0]
      if (next === undefined) break
      this.timers = this.timers.filter((timer) => timer !== next)
      this.nowMs = Math.max(this.nowMs, next.atMs)
      next.run()
    }
    this.nowMs = endMs
  }
}
