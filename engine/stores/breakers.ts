/**
 * The circuit breakers of a store in one thread, and their state for operators.
 *
 *     sluice.store.breaker_open.__node=10_0_0_5_6379     gauge: workers in which it is open
 *     sluice.store.breaker_opened.__node=10_0_0_5_6379   counter: how often it opened
 */
import type { Settings } from '../settings/parse.ts'
import type { Stats } from '../stats/stats.ts'
import { type BreakerHooks, type BreakerOptions, CircuitBreaker } from './circuit-breaker.ts'

/** An open breaker, as reported to main. */
export interface OpenBreaker {
  node: string
  reason: string
}

/** Nodes with statistics of their own. A cluster may replace its nodes for ever; further ones share `other`. */
const NAMED_NODES_MAX = 1_000
const OTHER = 'other'

export function breakerOptions(settings: Settings): BreakerOptions {
  return {
    failuresInRow: settings.STORE_BREAKER_FAILURES,
    share: settings.STORE_BREAKER_SHARE,
    windowMs: settings.STORE_BREAKER_WINDOW,
    latencyMs: settings.STORE_BREAKER_LATENCY,
    silenceMs: settings.STORE_BREAKER_SILENCE,
    probeIntervalMs: settings.STORE_BREAKER_PROBE_INTERVAL,
    successes: settings.STORE_BREAKER_SUCCESSES,
  }
}

/** Never opens: for stores that are opened without settings. */
export const NO_BREAKER: BreakerOptions = {
  failuresInRow: 0,
  share: 1,
  windowMs: 1_000,
  latencyMs: 0,
  silenceMs: 0,
  probeIntervalMs: 1_000,
  successes: 1,
}

export class Breakers {
  private readonly options: BreakerOptions
  private readonly stats: Stats | null
  private readonly onChange: () => void
  private readonly breakers = new Map<CircuitBreaker, string>() // and the names of their nodes
  private readonly names = new Map<CircuitBreaker, string>() // in statistics
  private readonly openByName = new Map<string, number>() // how many are open, by name in statistics

  /** `onChange`: `open` is another list. */
  constructor(options: BreakerOptions, stats: Stats | null, onChange: () => void) {
    this.options = options
    this.stats = stats
    this.onChange = onChange
  }

  /** Those that are open. */
  get open(): OpenBreaker[] {
    return [...this.breakers].flatMap(([{ isOpen, reason }, node]) => (isOpen ? [{ node, reason }] : []))
  }

  /** Calls have reached their deadlines. */
  onLate(): void {
    for (const breaker of this.breakers.keys()) breaker.onLate()
  }

  /** `isNamed` false: the node counts as `other` until `name` is called. */
  create(
    node: string,
    {
      probe,
      waitingSinceMs,
      onSilent,
      isNamed = true,
    }: Pick<BreakerHooks, 'probe' | 'waitingSinceMs' | 'onSilent'> & { isNamed?: boolean },
  ): CircuitBreaker {
    const breaker: CircuitBreaker = new CircuitBreaker(this.options, {
      probe,
      ...{ waitingSinceMs, onSilent },
      onChange: () => {
        const name = this.names.get(breaker)!
        this.addOpen(name, breaker.isOpen ? 1 : -1)
        if (breaker.isOpen) this.stats?.add(this.stats.counter(openedName(name)), 1)
        this.onChange()
      },
      nowMs: () => performance.now(),
      random: Math.random,
      schedule,
    })
    this.breakers.set(breaker, node)
    this.names.set(breaker, isNamed ? this.addName(node) : this.addName(OTHER))
    return breaker
  }

  /** The node exists: it gets statistics of its own. */
  name(breaker: CircuitBreaker): void {
    const [from, node] = [this.names.get(breaker), this.breakers.get(breaker)]
    if (from !== OTHER || node === undefined) return
    const to = this.addName(node)
    this.names.set(breaker, to)
    if (!breaker.isOpen) return
    this.addOpen(from, -1)
    this.addOpen(to, 1)
  }

  /** The node is not used any more. */
  remove(breaker: CircuitBreaker): void {
    const node = this.breakers.get(breaker)
    if (node === undefined) return
    const name = this.names.get(breaker)!
    this.breakers.delete(breaker)
    this.names.delete(breaker)
    breaker.close()
    if (!breaker.isOpen) return
    this.addOpen(name, -1)
    this.onChange()
  }

  private addOpen(name: string, count: number): void {
    this.openByName.set(name, this.openByName.get(name)! + count)
  }

  private addName(node: string): string {
    const name = this.getName(node)
    if (!this.openByName.has(name)) {
      this.openByName.set(name, 0)
      this.stats?.gauge(`sluice.store.breaker_open.__node=${name}`, () => this.openByName.get(name)!)
      this.stats?.counter(openedName(name)) // so that it exists at 0
    }
    return name
  }

  private getName(node: string): string {
    const name = node.replaceAll(/[^\w/@-]/g, '_')
    return this.openByName.has(name) || this.openByName.size < NAMED_NODES_MAX ? name : OTHER
  }
}

function openedName(name: string): string {
  return `sluice.store.breaker_opened.__node=${name}`
}

function schedule(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}
