/**
 * Statistics of one thread: numbers in a column, names beside it.
 *
 *     index   name                                                   value   handed over
 *       0     ratelimit.service.call.should_rate_limit.redis_error      2         2
 *       1     ratelimit.service.rate_limit.shop.user.total_hits        17        12      takeDeltas() yields 5
 *
 * Counting is one addition by index. Main asks for the differences and keeps the totals, so a scrape and a flush never
 * take from each other. Names that come from callers are bounded: beyond the bound all share one `other` rule.
 */

/** The six counters of a rule in their order (spec 7.1); `rule()` returns the index of the first. */
export const RULE_STATS = [
  'total_hits',
  'over_limit',
  'near_limit',
  'over_limit_with_local_cache',
  'within_limit',
  'shadow_mode',
] as const
export const TOTAL_HITS = 0
export const OVER_LIMIT = 1
export const NEAR_LIMIT = 2
export const WITHIN_LIMIT = 4
export const SHADOW_MODE = 5

/** Distinct stats keys of rules and domains in one thread; beyond, new ones count under `other`. About 100 bytes
 * each. 100,000 configured rules with all counters in use stay below it. */
const KEYS_MAX = 200_000
const OTHER = 'other'

/** What grew since the last hand-over: `names[i]` by `values[i]`. */
export interface Deltas {
  names: string[]
  values: number[]
}

export class Stats {
  private readonly names: string[] = []
  private values = new Float64Array(256)
  private handedOver = new Float64Array(256)
  private readonly baseByRule = new Map<string, number>()
  private readonly indexByName = new Map<string, number>()

  /** Index of a counter with this full name, made on first use. */
  counter(name: string): number {
    let index = this.indexByName.get(name)
    if (index === undefined) {
      index = this.grow([name])
      this.indexByName.set(name, index)
    }
    return index
  }

  /** Index of the first of a rule's six counters. `statsKey` is spec 2.3's, it starts with the domain. */
  rule(statsKey: string): number {
    const base = this.baseByRule.get(statsKey)
    return base ?? this.makeRule(statsKey)
  }

  /** Index of a domain's `domain_not_found` counter. The domain is caller text. */
  domainNotFound(domain: string): number {
    const isNew = !this.indexByName.has(domainNotFoundName(domain))
    const isBeyond = isNew && this.indexByName.size >= KEYS_MAX
    return this.counter(domainNotFoundName(isBeyond ? OTHER : domain))
  }

  add(index: number, amount: number): void {
    this.values[index] += amount
  }

  takeDeltas(): Deltas {
    const deltas: Deltas = { names: [], values: [] }
    for (let i = 0; i < this.names.length; i++) {
      if (this.values[i] === this.handedOver[i]) continue
      deltas.names.push(this.names[i])
      deltas.values.push(this.values[i] - this.handedOver[i])
      this.handedOver[i] = this.values[i]
    }
    return deltas
  }

  private makeRule(statsKey: string): number {
    if (this.baseByRule.size >= KEYS_MAX && statsKey !== OTHER) return this.rule(OTHER)
    const prefix = `ratelimit.service.rate_limit.${sanitize(statsKey)}.`
    const base = this.grow(RULE_STATS.map((stat) => prefix + stat))
    this.baseByRule.set(statsKey, base)
    return base
  }

  private grow(names: string[]): number {
    const base = this.names.length
    this.names.push(...names)
    if (this.names.length > this.values.length) {
      this.values = doubled(this.values)
      this.handedOver = doubled(this.handedOver)
    }
    return base
  }
}

function domainNotFoundName(domain: string): string {
  return `ratelimit.service.rate_limit.${sanitize(domain)}.domain_not_found`
}

/** Spec 7.1: `:` and `|` would break statsd lines, dots inside IPv4 addresses would make path components. */
function sanitize(text: string): string {
  return text
    .replaceAll(/[:|]/g, '_')
    .replaceAll(/\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}/g, (address) => address.replaceAll('.', '_'))
}

function doubled(column: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const wider = new Float64Array(column.length * 2)
  wider.set(column)
  return wider
}
