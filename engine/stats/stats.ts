/**
 * Statistics of one thread: a column of numbers, and their names.
 *
 *     key of a rule or a plain name      first    values         handed over
 *     shop.user   (six counters)           0      17 0 3 0 17 0  12 0 3 0 12 0     takeDeltas() yields 5 and 5
 *     …call.should_rate_limit.redis_error  6      2              2
 *
 * Counting is one addition by index. Main collects the differences and keeps the totals, so that scrapes and flushes are
 * independent. Full names are only built for counters that have grown. Keys can contain text of clients (overrides, unknown
 * domains, metric flags), so their number, length and total size are bounded; beyond, all share one `other`.
 */

import { STORE_ERROR_POLICIES, type StoreErrorPolicy } from '../config/rules.ts'
import { Timer, type TimerDeltas } from './timer.ts'

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
export const OVER_LIMIT_WITH_LOCAL_CACHE = 3
export const WITHIN_LIMIT = 4
export const SHADOW_MODE = 5

/** Counters of the rules that a policy had to answer for, without a count of the store. */
export const DEGRADED_STATS = STORE_ERROR_POLICIES.map((policy) => `degraded_${policy}` as const)

/** Keys of rules and domains in one thread; enough for 100,000 rules that are all in use. */
const KEYS_MAX = 120_000
const KEY_CHARS_MAX = 1_024 // per key; a longer one counts under `other`
const KEYS_CHARS_MAX = 6_000_000 // of all
const OTHER = 'other'

/** What one hit adds at most, though hits go up to 2^63-1: a double above 2^53 ignores further additions of 1. */
const AMOUNT_MAX = 2 ** 32

/**
 * Increases since the last call: `names[i]` by `values[i]`. Counters worth an alert are also reported once at 0, plain ones
 * when they are created, a rule's over_limit and its policy's degraded counter with its first hits, because `increase()` does not see the first step of a
 * series that starts at 1. Keys with values of clients are not, because that would add a series for each.
 */
export interface Deltas {
  names: string[]
  values: number[]
  timers: TimerDeltas[]
  gauges: [name: string, value: number][] // current values of all gauges
  ofRules: [path: string, hits: number, overLimit: number][] // counted under keys other than the rule's path
}

export class Stats {
  private readonly firstOfRule = new Map<string, number>() // by stats key
  private readonly firstOfDegraded = new Map<number, number>() // by the first counter of the rule; no larger than firstOfRule
  private readonly pathOfKey = new Map<string, string>() // path of the rule, for stats keys with values of clients
  private readonly firstOfDomain = new Map<string, number>() // domain_not_found
  private readonly firstOfName = new Map<string, number>()
  private newNames: string[] = [] // of `firstOfName`, not reported yet
  private readonly timers = new Map<string, Timer>()
  private readonly gauges = new Map<string, () => number>()
  private count = 0
  private keysChars = 0
  private values = new Float64Array(256)
  private handedOver = new Float64Array(256)
  private policies = new Uint8Array(256) // by the first counter of a rule: index in DEGRADED_STATS plus 1; 0 = none

  /** Index of a counter with this full name, created on first use. Not for names that contain text of clients. */
  counter(name: string): number {
    const known = this.firstOfName.get(name)
    if (known !== undefined) return known
    this.newNames.push(name)
    return this.grow(this.firstOfName, name, 1)
  }

  /**
   * Index of the first of a rule's six counters. `statsKey` is spec 2.3's, it starts with the domain, as the rule's path. `policy` answers
   * for the rule if the store does not; null = the store cannot fail.
   */
  rule(statsKey: string, path = statsKey, policy: StoreErrorPolicy | null = null): number {
    const known = this.firstOfRule.get(statsKey)
    const first = known ?? this.admit(this.firstOfRule, statsKey, RULE_STATS.length)
    this.policies[first] = policy === null ? 0 : STORE_ERROR_POLICIES.indexOf(policy) + 1 // of the rules in force
    // Also for a known one: an override may have come first, or another rule that is not in force any more.
    if (statsKey !== path && this.firstOfRule.has(statsKey)) this.pathOfKey.set(statsKey, path)
    return first
  }

  /** Adds to one of a rule's DEGRADED_STATS. `ruleFirst` is what `rule` returned. */
  addDegraded(ruleFirst: number, stat: number, amount: number): void {
    const known = this.firstOfDegraded.get(ruleFirst)
    const first = known ?? this.grow(this.firstOfDegraded, ruleFirst, DEGRADED_STATS.length)
    this.add(first + stat, amount)
  }

  /** Index of a domain's `domain_not_found` counter. */
  domainNotFound(domain: string): number {
    return this.firstOfDomain.get(domain) ?? this.admit(this.firstOfDomain, domain, 1)
  }

  /** The timer with this full name, created on first use. Not for names that contain text of clients. */
  timer(name: string): Timer {
    const timer = this.timers.get(name) ?? new Timer()
    this.timers.set(name, timer)
    return timer
  }

  /** A gauge of this thread, read by takeDeltas; main adds up those of all threads. */
  gauge(name: string, read: () => number): void {
    this.gauges.set(name, read)
  }

  /** Adds `amount`, or 2^32 if it is more. */
  add(index: number, amount: number): void {
    this.values[index] += Math.min(amount, AMOUNT_MAX)
  }

  takeDeltas(): Deltas {
    const timers = [...this.timers].flatMap(([name, timer]) => timer.take(name) ?? [])
    const gauges = [...this.gauges].map(([name, read]): [string, number] => [name, read()])
    const deltas: Deltas = { names: [], values: [], timers, gauges, ofRules: [] }
    for (const [key, first] of this.firstOfRule) this.takeRule(key, first, deltas)
    for (const [domain, index] of this.firstOfDomain) {
      if (this.hasGrown(index)) this.take(`${ruleName(domain)}.domain_not_found`, index, deltas)
    }
    for (const name of this.newNames) this.take(name, this.firstOfName.get(name)!, deltas)
    this.newNames = []
    for (const [name, index] of this.firstOfName) if (this.hasGrown(index)) this.take(name, index, deltas)
    return deltas
  }

  private takeRule(key: string, first: number, deltas: Deltas): void {
    const path = this.pathOfKey.get(key)
    const [hits, overLimit] = [this.growth(first + TOTAL_HITS), this.growth(first + OVER_LIMIT)]
    if (path !== undefined && hits + overLimit > 0) deltas.ofRules.push([path, hits, overLimit])
    const isNew = path === undefined && hits > 0 && this.handedOver[first + TOTAL_HITS] === 0
    let name = ''
    for (let i = 0; i < RULE_STATS.length; i++) {
      if (!this.hasGrown(first + i) && !(isNew && i === OVER_LIMIT)) continue
      name ||= ruleName(key)
      this.take(`${name}.${RULE_STATS[i]}`, first + i, deltas)
    }
    const policy = isNew ? this.policies[first] - 1 : -1
    const degraded = this.firstOfDegraded.size === 0 ? undefined : this.firstOfDegraded.get(first)
    if (policy >= 0 && (degraded === undefined || !this.hasGrown(degraded + policy))) {
      deltas.names.push(`${name}.${DEGRADED_STATS[policy]}`)
      deltas.values.push(0)
    }
    if (degraded === undefined) return
    name ||= ruleName(key)
    for (let i = 0; i < DEGRADED_STATS.length; i++)
      if (this.hasGrown(degraded + i)) this.take(`${name}.${DEGRADED_STATS[i]}`, degraded + i, deltas)
  }

  private hasGrown(index: number): boolean {
    return this.growth(index) !== 0
  }

  private growth(index: number): number {
    return this.values[index] - this.handedOver[index]
  }

  private take(name: string, index: number, deltas: Deltas): void {
    deltas.names.push(name)
    deltas.values.push(this.growth(index))
    this.handedOver[index] = this.values[index]
  }

  private admit(keys: Map<string, number>, key: string, width: number): number {
    const isBeyond = keys.size >= KEYS_MAX || this.keysChars + key.length > KEYS_CHARS_MAX
    if (key.length <= KEY_CHARS_MAX && !isBeyond) {
      this.keysChars += key.length
      return this.grow(keys, key, width)
    }
    return keys.get(OTHER) ?? this.grow(keys, OTHER, width)
  }

  private grow<K>(keys: Map<K, number>, key: K, width: number): number {
    const first = this.count
    keys.set(key, first)
    this.count += width
    if (this.count > this.values.length) {
      this.values = doubled(this.values)
      this.handedOver = doubled(this.handedOver)
      const policies = new Uint8Array(this.values.length)
      policies.set(this.policies)
      this.policies = policies
    }
    return first
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const UNSAFE = /[:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g
const ADDRESS = /\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}/g
const TAG_OPENING = /\._{2,}/g

/** The full name of one of a rule's six counters. */
export function ruleStat(statsKey: string, stat: (typeof RULE_STATS)[number]): string {
  return `${ruleName(statsKey)}.${stat}`
}

/**
 * Spec 7.1: `:` and `|` would break statsd lines, dots inside IPv4 addresses would make path components. Control
 * characters, which a client's domain may contain, would break lines as well. And `.__` starts tags in a name (7.2), which
 * clients must not set; it is reduced to one `_`.
 */
function ruleName(key: string): string {
  return `ratelimit.service.rate_limit.${key}`
    .replaceAll(UNSAFE, '_')
    .replaceAll(ADDRESS, (address) => address.replaceAll('.', '_'))
    .replaceAll(TAG_OPENING, '._')
}

function doubled(column: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const wider = new Float64Array(column.length * 2)
  wider.set(column)
  return wider
}
