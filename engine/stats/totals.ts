/**
 * Totals over all threads, kept by main: `/stats` and every sink read them, nobody resets them.
 *
 *     counters   grow, whichever thread has counted        timers   whole ms, and how often
 *     gauges     are as they are: main's own, and the sum of what each living thread last said
 */
import type { Deltas } from './stats.ts'
import type { TimerDeltas } from './timer.ts'

type Values = [name: string, value: number][]

export class Totals {
  private readonly values = new Map<string, number>()
  private readonly timed = new Map<string, Map<number, number>>() // name → whole ms → how often
  private readonly states = new Map<string, number>()
  private readonly statesOf = new Map<string, Deltas['gauges']>() // by thread

  add(name: string, amount: number): void {
    this.values.set(name, (this.values.get(name) ?? 0) + amount)
  }

  /** For what is a state and not a count. */
  set(name: string, value: number): void {
    this.states.set(name, value)
  }

  /** `thread`: whose states these are, in place of those it said before. */
  merge({ names, values, timers, gauges }: Deltas, thread: string): void {
    for (let i = 0; i < names.length; i++) this.add(names[i], values[i])
    for (const timer of timers) this.addTimed(timer)
    this.statesOf.set(thread, gauges)
  }

  /** It has ended; what it has counted stays. */
  forget(thread: string): void {
    this.statesOf.delete(thread)
  }

  /** Sorted by name. */
  get counters(): Values {
    return sorted(this.values)
  }

  /** Sorted by name. */
  get gauges(): Values {
    const all = new Map(this.states)
    for (const states of this.statesOf.values())
      for (const [name, value] of states) all.set(name, (all.get(name) ?? 0) + value)
    return sorted(all)
  }

  /** By name: whole ms and how often, since the start. */
  get timers(): ReadonlyMap<string, ReadonlyMap<number, number>> {
    return this.timed
  }

  /** Counters and gauges, sorted by name. */
  sorted(): Values {
    return [...this.counters, ...this.gauges].sort(byName)
  }

  private addTimed({ name, ms, counts }: TimerDeltas): void {
    const timed = this.timed.get(name) ?? new Map<number, number>()
    this.timed.set(name, timed)
    for (let i = 0; i < ms.length; i++) timed.set(ms[i], (timed.get(ms[i]) ?? 0) + counts[i])
  }
}

function sorted(values: ReadonlyMap<string, number>): Values {
  return [...values].sort(byName)
}

function byName([a]: readonly [string, number], [b]: readonly [string, number]): number {
  return a < b ? -1 : 1
}
