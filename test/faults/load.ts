/**
 * The load of a scenario: calls with random descriptors, hits and deadlines from a seed, in an open loop with a bound on calls in flight,
 * each reported to the history.
 *
 *     half of the calls have one descriptor, the others up to DESCRIPTORS_MAX; one in MIXED of these mixes policies, the others have one
 *     keys are chosen by the square of a random number, so some reach their limits at once and others never
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../../bench/size.ts'
import type { StoreErrorPolicy } from '../../engine/config/rules.ts'
import type { Descriptor, RateLimitRequest } from '../../proto/ratelimit.ts'
import type { Answer } from './answer.ts'
import { LoadClient } from './client.ts'
import type { History, Now } from './history.ts'
import type { FaultRule, HistoryItem } from './model.ts'

export const DOMAIN = 'faults'
export const POLICIES: readonly StoreErrorPolicy[] = ['error', 'allow', 'deny', 'local']

const LIMITS = { second: 12, day: 40 } as const // version 0; low, so that limits are reached
const UNIT_SECONDS = { second: 1, day: 86_400 } as const
const LOCAL_SHARES = { second: 100, day: 30 } as const

const CONNECTIONS = 8 // enough for each of two workers to get some
const IN_FLIGHT_MAX = 1_024 // beyond: calls that are due are not made
const CATCH_UP_MS = 50 // of calls that are due are made late; earlier ones are not made
const DESCRIPTORS_MAX = 8
const MIXED = 8
const HITS_MAX = 4
const KEYS = 48 // per rule and round
const TICK_MS = 1
const DRAIN_MS_MAX = 60_000 // calls that have no answer then are unanswered, which is reported

/** Rules of each policy, per second and per day, whose limit grows by 1 with each version. */
export function createRules(versionsCount: number): FaultRule[] {
  return POLICIES.flatMap((policy) =>
    (['second', 'day'] as const).map((unit) => ({
      key: `${policy}-${unit}`,
      unit,
      unitSec: UNIT_SECONDS[unit],
      limits: Array.from({ length: versionsCount }, (_, version) => LIMITS[unit] + version),
      policy,
      localShare: LOCAL_SHARES[unit],
    })),
  )
}

/** The rules as a file of their version. */
export function formatRules(rules: readonly FaultRule[], version = 0): string {
  const lines = rules.map(({ key, unit, limits, policy, localShare }) => {
    const local = policy === 'local' ? `, local_share: ${localShare}` : ''
    const limit = `rate_limit: { unit: ${unit}, requests_per_unit: ${limits[version]} }`
    return `  - { key: ${key}, on_store_error: ${policy}${local}, ${limit} }\n`
  })
  return `domain: ${DOMAIN}\ndescriptors:\n${lines.join('')}`
}

export interface LoadOptions {
  address: string // of gRPC
  ratePerSec: number // of calls
  seed: number
  rules: readonly FaultRule[]
  /** grpc-timeouts of calls, chosen at random; undefined = none. */
  timeoutsMs: readonly (number | undefined)[]
  history: History
}

export class Load {
  round = 0
  private readonly options: LoadOptions
  private readonly random: () => number
  private readonly clients: LoadClient[] = []
  private readonly inFlightByRound = new Map<number, number>()
  private timer: NodeJS.Timeout | undefined
  private startMs = 0
  private made = 0

  constructor(options: LoadOptions) {
    this.options = options
    this.random = seeded(options.seed)
  }

  get lostConnections(): number {
    return this.clients.reduce((sum, { lostCount }) => sum + lostCount, 0)
  }

  async start(): Promise<void> {
    for (let i = 0; i < CONNECTIONS; i++) this.clients.push(new LoadClient(this.options.address))
    await Promise.all(this.clients.map((client) => client.open()))
    this.startMs = performance.now()
    this.timer = setInterval(() => this.tick(), TICK_MS)
  }

  /** Ends the load; the calls in flight get their answers. */
  async stop(): Promise<void> {
    clearInterval(this.timer)
    await this.drain(null)
    for (const client of this.clients) client.close()
  }

  /** Later calls have keys of the next round. Resolves when the calls of this one have ended. */
  async nextRound(): Promise<void> {
    const ended = this.round++
    await this.drain(ended)
  }

  private async drain(round: number | null): Promise<void> {
    const { history } = this.options
    const endMs = performance.now() + DRAIN_MS_MAX
    const count = () =>
      round === null
        ? [...this.inFlightByRound.values()].reduce((sum, each) => sum + each, 0)
        : (this.inFlightByRound.get(round) ?? 0)
    while (count() > 0 && performance.now() < endMs) await sleep(5)
    if (count() > 0)
      history.report('deadline', null, `${count()} calls have no answer after ${DRAIN_MS_MAX} ms`)
    if (round !== null) this.inFlightByRound.delete(round)
  }

  private tick(): void {
    const { ratePerSec } = this.options
    const due = Math.floor(((performance.now() - this.startMs) * ratePerSec) / 1_000)
    this.made = Math.max(this.made, due - Math.ceil((CATCH_UP_MS * ratePerSec) / 1_000))
    for (; this.made < due; this.made++) if (this.options.history.inFlight < IN_FLIGHT_MAX) this.makeCall()
  }

  private makeCall(): void {
    const { history, timeoutsMs } = this.options
    const { round } = this
    const { items, request } = this.createRequest()
    const timeoutMs = timeoutsMs[this.randomInt(timeoutsMs.length)]
    const call = history.begin(round, items, timeoutMs, now())
    this.inFlightByRound.set(round, (this.inFlightByRound.get(round) ?? 0) + 1)
    const done = (answer: Answer) => {
      history.end(call, answer, now())
      this.inFlightByRound.set(round, (this.inFlightByRound.get(round) ?? 1) - 1)
    }
    this.clients[this.randomInt(this.clients.length)].ask(request, timeoutMs, done)
  }

  private createRequest(): { items: HistoryItem[]; request: RateLimitRequest } {
    const { rules } = this.options
    const count = this.random() < 0.5 ? 1 : 1 + this.randomInt(DESCRIPTORS_MAX)
    const isMixed = this.randomInt(MIXED) === 0
    const policy = POLICIES[this.randomInt(POLICIES.length)]
    const choices = isMixed ? rules : rules.filter((rule) => rule.policy === policy)
    const requestHits = this.random() < 0.7 ? 0 : 1 + this.randomInt(HITS_MAX)
    const items: HistoryItem[] = []
    const descriptors: Descriptor[] = []
    for (let i = 0; i < count; i++) {
      const rule = choices[this.randomInt(choices.length)]
      const value = `r${this.round}-${Math.floor(KEYS * this.random() ** 2)}`
      const ownHits = this.randomInt(6) === 0 ? 1 + this.randomInt(HITS_MAX) : null
      items.push({ rule, value, hits: ownHits ?? Math.max(1, requestHits) })
      descriptors.push({ entries: [{ key: rule.key, value }], limit: null, hitsAddend: ownHits })
    }
    return { items, request: { domain: DOMAIN, descriptors, hitsAddend: requestHits } }
  }

  private randomInt(below: number): number {
    return Math.floor(this.random() * below)
  }
}

export function now(): Now {
  return { ms: performance.now(), wallMs: Date.now() }
}
