/**
 * Totals over all workers, kept by main: `/stats` and every sink read them, nobody resets them.
 */
import type { Deltas } from './stats.ts'

export class Totals {
  private readonly values = new Map<string, number>()

  add(name: string, amount: number): void {
    this.values.set(name, (this.values.get(name) ?? 0) + amount)
  }

  /** For what is a state and not a count. */
  set(name: string, value: number): void {
    this.values.set(name, value)
  }

  merge({ names, values }: Deltas): void {
    for (let i = 0; i < names.length; i++) this.add(names[i], values[i])
  }

  /** Name and value, sorted by name. */
  sorted(): [name: string, value: number][] {
    return [...this.values].sort(([a], [b]) => (a < b ? -1 : 1))
  }
}
