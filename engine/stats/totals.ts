/**
 * Totals over all workers, kept by main: `/stats` and every sink read them, nobody resets them.
 */
import type { Deltas } from './stats.ts'
import type { TimerDeltas } from './timer.ts'

export class Totals {
  private readonly values = new Map<string, number>()
  private readonly timed = new Map<string, Map<number, number>>() // name → whole ms → how often

  add(name: string, amount: number): void {
    this.values.set(name, (this.values.get(name) ?? 0) + amount)
  }

  /** For what is a state and not a count. */
  set(name: string, value: number): void {
    this.values.set(name, value)
  }

  merge({ names, values, timers }: Deltas): void {
    for (let i = 0; i < names.length; i++) this.add(names[i], values[i])
    for (const timer of timers) this.addTimed(timer)
  }

  /** By name: whole ms and how often, since the start. */
  get timers(): ReadonlyMap<string, ReadonlyMap<number, number>> {
    return this.timed
  }

  private addTimed({ name, ms, counts }: TimerDeltas): void {
    const timed = this.timed.get(name) ?? new Map<number, number>()
    this.timed.set(name, timed)
    for (let i = 0; i < ms.length; i++) timed.set(ms[i], (timed.get(ms[i]) ?? 0) + counts[i])
  }

  /** Name and value, sorted by name. */
  sorted(): [name: string, value: number][] {
    return [...this.values].sort(([a], [b]) => (a < b ? -1 : 1))
  }
}
