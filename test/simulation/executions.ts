/**
 * What simulated servers have counted: the truth that answers are compared with.
 *
 *     key shop_a_60   INCRBY 2 ─► 0 to 2   INCRBY 1 ─► 2 to 3   (expired, evicted or lost)   INCRBY 1 ─► 0 to 1
 *     times counted   unit 1: 2            unit 2: 1            unit 3: 1                     highest count: 3
 */
export interface Execution {
  hits: number
  before: number
  atMs: number
}

export class Executions {
  private readonly byKey = new Map<string, Execution[]>()
  private readonly highest = new Map<string, number>()
  private readonly expiries = new Map<string, Set<number>>()

  /** The server was told to keep the key so many seconds. */
  addExpiry(key: string, sec: number): void {
    const known = this.expiries.get(key)
    if (known === undefined) this.expiries.set(key, new Set([sec]))
    else known.add(sec)
  }

  /** Every expiry that was sent for the key, in seconds. */
  getExpiries(key: string): readonly number[] {
    return [...(this.expiries.get(key) ?? [])]
  }

  add(key: string, execution: Execution): void {
    const known = this.byKey.get(key)
    if (known === undefined) this.byKey.set(key, [execution])
    else known.push(execution)
    this.highest.set(key, Math.max(this.getHighest(key), execution.before + execution.hits))
  }

  of(key: string): readonly Execution[] {
    return this.byKey.get(key) ?? []
  }

  /** The highest count that the key has had. */
  getHighest(key: string): number {
    return this.highest.get(key) ?? 0
  }

  /** Sum of all hits added to the key. */
  getTotal(key: string): number {
    return this.of(key).reduce((sum, { hits }) => sum + hits, 0)
  }

  /** How often the key was created before `endMs`. */
  getLives(key: string, endMs = Number.POSITIVE_INFINITY): number {
    return this.of(key).filter(({ before, atMs }) => before === 0 && atMs < endMs).length
  }

  /** How often the count of the key went from `unit` - 1 to `unit`: once per life of the key. */
  getTimesCounted(key: string, unit: number): number {
    return this.of(key).filter(({ before, hits }) => before < unit && before + hits >= unit).length
  }
}
