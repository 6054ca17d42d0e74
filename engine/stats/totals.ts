/**
 * Totals over all threads, kept by main: read by `/stats` and every sink, never reset.
 *
 *     counters   sums over all threads                     timers   whole ms, and their counts
 *     gauges     those of main, and the sums of the last values of each running thread
 */
import type { Deltas } from './stats.ts'
import type { TimerDeltas } from './timer.ts'

type Values = [name: string, value: number][]

export interface TimedTotal {
  readonly counts: ReadonlyMap<number, number> // whole ms → how often
  readonly sumMs: number
}

export interface RuleHits {
  hits: number
  overLimit: number // of those
}

export class Totals {
  private readonly values = new Map<string, number>()
  private readonly timed = new Map<string, { counts: Map<number, number>; sumMs: number }>()
  private readonly rules = new Map<string, RuleHits>() // by path: hits counted under keys with values of clients
  private readonly states = new Map<string, number>()
  private readonly getGauge = new Map<string, Deltas['gauges']>() // by thread

  add(name: string, amount: number): void {
    this.values.set(name, (this.values.get(name) ?? 0) + amount)
  }

  /** Sets a gauge of main. */
  set(name: string, value: number): void {
    this.states.set(name, value)
  }

  /** `thread`: the gauges replace the former ones of this thread. */
  merge({ names, values, timers, gauges, ofRules }: Deltas, thread: string): void {
    for (let i = 0; i < names.length; i++) this.add(names[i], values[i])
    for (const timer of timers) this.addTimed(timer)
    for (const [path, hits, overLimit] of ofRules) {
      const before = this.getRule(path)
      this.rules.set(path, { hits: before.hits + hits, overLimit: before.overLimit + overLimit })
    }
    this.getGauge.set(thread, gauges)
  }

  /** Drops the gauges of a thread that has ended; its counts stay. */
  forget(thread: string): void {
    this.getGauge.delete(thread)
  }

  /** 0 if there is no such counter. */
  getCounter(name: string): number {
    return this.values.get(name) ?? 0
  }

  /** Hits of a rule counted under keys with values of clients (detailed_metric, value_to_metric); zeros for other rules. */
  getRule(path: string): RuleHits {
    return this.rules.get(path) ?? { hits: 0, overLimit: 0 }
  }

  get counters(): Values {
    return [...this.values]
  }

  get gauges(): Values {
    const all = new Map(this.states)
    for (const states of this.getGauge.values())
      for (const [name, value] of states) all.set(name, (all.get(name) ?? 0) + value)
    return [...all]
  }

  /** By name, since the start. */
  get timers(): ReadonlyMap<string, TimedTotal> {
    return this.timed
  }

  /** Counters and gauges, sorted by name. */
  sorted(): Values {
    return [...this.counters, ...this.gauges].sort(([a], [b]) => (a < b ? -1 : 1))
  }

  private addTimed({ name, ms, counts, sumMs }: TimerDeltas): void {
    const timed = this.timed.get(name) ?? { counts: new Map<number, number>(), sumMs: 0 }
    this.timed.set(name, timed)
    timed.sumMs += sumMs
    for (let i = 0; i < ms.length; i++) timed.counts.set(ms[i], (timed.counts.get(ms[i]) ?? 0) + counts[i])
  }
}
