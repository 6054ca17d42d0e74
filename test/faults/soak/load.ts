/**
 * The calls of the soak test, and what their answers were. One loop of bench/load per domain, so that the policy that may answer is
 * known; what another policy answers, or fails in a domain whose policy does not fail, is broken:
 *
 *     domain        policy    limits       keys of the full size
 *     soak_local    local     per minute   Zipf: the most frequent users are over their limit
 *     soak_error    error     per minute   the same
 *     soak_allow    allow     per second   new ones all the time; counted by the Redis for limits per second
 *     soak_deny     deny      per second   the same
 *     soak_limit    error     per minute   one, so what passes can be compared with the limit
 */
import {
  CODE_MASK,
  DEGRADED,
  DEGRADED_POLICIES,
  POLICY_SHIFT,
} from '../../../bench/load/classify-response.ts'
import { Histogram } from '../../../bench/load/histogram.ts'
import { Loop } from '../../../bench/load/loop.ts'
import { parseOptions } from '../../../bench/load/options.ts'
import { Recorder } from '../../../bench/load/recorder.ts'
import { Code } from '../../../proto/ratelimit.ts'
import { LagMeter } from '../lag.ts'

const LIMIT_PER_MINUTE = 100
const MINUTE_MS = 60_000
const LIMIT_PER_SECOND = 1_000

interface Flow {
  name: string // domain, without "soak_"
  policy: 'local' | 'error' | 'allow' | 'deny'
  keys: 'minute' | 'second' | 'one' // one = a single counter per minute
}

const FLOWS: readonly Flow[] = [
  { name: 'local', policy: 'local', keys: 'minute' },
  { name: 'error', policy: 'error', keys: 'minute' },
  { name: 'allow', policy: 'allow', keys: 'second' },
  { name: 'deny', policy: 'deny', keys: 'second' },
  { name: 'limit', policy: 'error', keys: 'one' },
]

/** What an answer was: counted by the store and within or over the limit, given by a policy, or an error. */
export const KINDS = ['within limit', 'over limit', 'local', 'allow', 'deny', 'failed'] as const
export type Kind = (typeof KINDS)[number]
export type Counts = Record<Kind, number>

/** Rules of the calls, by file name. */
export function createRules(): Record<string, string> {
  const files = FLOWS.map(({ name, policy, keys }) => {
    const unit = keys === 'second' ? 'second' : 'minute'
    const limit = unit === 'second' ? LIMIT_PER_SECOND : LIMIT_PER_MINUTE
    const rule = `{ key: user, on_store_error: ${policy}, rate_limit: { unit: ${unit}, requests_per_unit: ${limit} } }`
    return [`${name}.yaml`, `domain: soak_${name}\ndescriptors:\n  - ${rule}\n`]
  })
  return Object.fromEntries(files)
}

const NO_RESPONSE = 'no response within' // Loop.stop
const GIVEN_UP = 'gRPC status 4' // by the service, at the call's deadline: no answer was ready
const NO_CONNECTION = 'cannot connect again' // Loop.reconnect; not a call, and a worker that ended may take seconds to come back

/** With grpc-timeout, as a proxy in front of users has it: no call waits longer for a store that does not reply. */
const DEADLINE_MS = 200

/** A pause of this process from which a service on the same machine has one that it cannot answer in. */
export const PAUSE_MS = 25 // half of what the service leaves for an answer: Redis and a worker wait for a core as well
/** So long after a pause, as after any fault, calls may be answered by a policy. */
const BACK_MS = 2_000

/** What is known of the machine. Times are those of performance.now(). */
export type Pauses = Pick<LagMeter, 'maxBetween'>

/**
 * Counts answers of one domain by kind as they arrive. A machine that gives this process no core for PAUSE_MS gives the service none
 * either: calls that were open then may be given up, and calls until BACK_MS later may be answered by their policy. Nothing else is excused.
 */
export class KindRecorder extends Recorder {
  counts = createCounts()
  latencies = new Histogram()
  countedInRow = 0 // answers by the store since the last other one
  others = 0 // answers by a policy and errors
  unanswered = 0
  passed = 0 // within the limit, by the store
  othersExcused = 0 // of `others`: soon after a pause of the machine
  givenUpExcused = 0 // of those: given up although the policy answers
  lastOtherMs = Number.NEGATIVE_INFINITY // when the last one that is not excused arrived, by performance.now()
  broken = 0 // of `others`: failed although the policy answers, or answered by another policy
  brokenExample = ''
  readonly policy: Flow['policy']
  private readonly pauses: Pauses

  constructor({ policy }: Pick<Flow, 'policy'>, pauses: Pauses) {
    super(true)
    this.policy = policy
    this.pauses = pauses
  }

  override addResponse(dueMs: number, nowMs: number, code: number): void {
    super.addResponse(dueMs, nowMs, code)
    this.latencies.add(nowMs - dueMs)
    if (code & DEGRADED) {
      const policy = DEGRADED_POLICIES[code >> POLICY_SHIFT]
      if (policy !== this.policy) this.addBroken(`answered by ${policy || 'another policy'}`)
      this.addOther(policy || 'failed')
      return
    }
    const isWithin = (code & CODE_MASK) === Code.Ok
    if (isWithin) this.passed++
    this.counts[isWithin ? 'within limit' : 'over limit']++
    this.countedInRow++
  }

  override addFailure(reason: string): void {
    super.addFailure(reason)
    if (reason.startsWith(NO_RESPONSE)) this.unanswered++
    if (this.policy !== 'error' && !reason.startsWith(NO_CONNECTION)) {
      if (reason.startsWith(GIVEN_UP) && this.hasPaused(1.5 * DEADLINE_MS)) this.givenUpExcused++
      else this.addBroken(reason)
    }
    this.addOther('failed')
  }

  /** Within the last `ms`. */
  private hasPaused(ms: number): boolean {
    const nowMs = performance.now()
    return this.pauses.maxBetween(nowMs - ms, nowMs) >= PAUSE_MS
  }

  private addBroken(how: string): void {
    this.broken++
    this.brokenExample ||= `policy ${this.policy}: ${how}`
  }

  private addOther(kind: Kind): void {
    this.counts[kind]++
    this.others++
    this.countedInRow = 0
    if (this.hasPaused(BACK_MS + DEADLINE_MS)) this.othersExcused++
    else this.lastOtherMs = performance.now()
  }
}

export interface Interval {
  counts: Counts
  p99Ms: number | null // null = no answers
  broken: number // answers that break the promise of their policy
  brokenExample: string // '' = none
  lagMs: number | null // how late the generator itself made calls, p99; null = none were due
  pauseMs: number // the longest time for which this process had no core
}

/** What passed the one counter of `soak_limit`. */
export interface Passed {
  passed: number // calls within the limit, by the store
  least: number // that must have passed: in each whole minute as many as the limit, calls without a count left out
  most: number // that may have: as many in each minute; a store that lost its counts allows as many again
}

export interface LoadOptions {
  grpcAddress: string // host:port
  ratePerSec: number // of all calls together; 0 = closed loop
  connections: number // of each domain
  streams: number // calls in flight per connection at most; in a closed loop always
  minuteKeys: string // as --keys of bench/load
  secondKeys: string
}

export class Load {
  private startedAtMs = 0
  private endedAtMs = 0
  private intervalMs = performance.now() // when the last interval ended
  private readonly pauses = new LagMeter()
  private readonly flows: { recorder: KindRecorder; loop: Loop }[]

  constructor({ grpcAddress, ratePerSec, connections, streams, minuteKeys, secondKeys }: LoadOptions) {
    this.flows = FLOWS.map((flow, i) => {
      const keyKind = { minute: minuteKeys, second: secondKeys, one: 'hot' }[flow.keys]
      const { keys, seed, ...options } = parseOptions([
        `grpc://${grpcAddress}`,
        ...['--rate', String(Math.round(ratePerSec / FLOWS.length))],
        ...[
          '--connections',
          String(connections),
          '--streams',
          String(streams),
          '--deadline',
          `${DEADLINE_MS}ms`,
        ],
        ...['--keys', keyKind, '--seed', String(i)],
        ...['--descriptors', '1', '--entries', '1', '--domain', `soak_${flow.name}`],
      ])
      const recorder = new KindRecorder(flow, this.pauses)
      const shape = { ...options, keys }
      return { recorder, loop: new Loop({ ...options, shape, nextKey: keys.start(seed) }, recorder) }
    })
  }

  async start(): Promise<void> {
    this.startedAtMs = Date.now()
    for (const { loop } of this.flows) await loop.start()
  }

  /** Resolves when no calls are in flight; those without an answer have failed then. */
  async stop(): Promise<void> {
    const nowMs = performance.now()
    for (const { recorder } of this.flows) recorder.toMs = nowMs
    await Promise.all(this.flows.map(({ loop }) => loop.stop()))
    this.pauses.stop()
    this.endedAtMs = Date.now()
  }

  /** The answers since the last call of this method. */
  takeInterval(): Interval {
    const counts = createCounts()
    const latencies = new Histogram()
    const lag = new Histogram()
    const nowMs = performance.now()
    const pauseMs = this.pauses.maxBetween(this.intervalMs, nowMs)
    this.intervalMs = nowMs
    let broken = 0
    let brokenExample = ''
    for (const { recorder } of this.flows) {
      broken += recorder.broken
      brokenExample ||= recorder.brokenExample
      recorder.broken = 0
      recorder.brokenExample = ''
      for (const kind of KINDS) counts[kind] += recorder.counts[kind]
      latencies.merge(recorder.latencies)
      lag.merge(recorder.lag)
      recorder.counts = createCounts()
      recorder.latencies.clear()
      recorder.lag.clear()
      recorder.tick(nowMs)
    }
    const p99 = (histogram: Histogram) => (histogram.count === 0 ? null : histogram.quantileMs(0.99))
    return { counts, broken, brokenExample, pauseMs, p99Ms: p99(latencies), lagMs: p99(lag) }
  }

  /** What passed `soak_limit`, after `stop`. `losses`: how often the store has lost its counts. */
  judgeLimit(losses: number): Passed {
    const { recorder } = this.flows[FLOWS.findIndex(({ keys }) => keys === 'one')]
    const [fromMinute, toMinute] = [this.startedAtMs / MINUTE_MS, this.endedAtMs / MINUTE_MS]
    const wholeMinutes = Math.max(0, Math.floor(toMinute) - Math.ceil(fromMinute))
    const minutes = Math.floor(toMinute) - Math.floor(fromMinute) + 1
    return {
      passed: recorder.passed,
      least: Math.max(0, LIMIT_PER_MINUTE * wholeMinutes - recorder.others),
      most: LIMIT_PER_MINUTE * (minutes + losses),
    }
  }

  /** Each domain has had as many answers by the store in a row. */
  isCounted(answers: number): boolean {
    return this.flows.every(({ recorder }) => recorder.countedInRow >= answers)
  }

  /** From now on answers by the store are counted anew. */
  restartCounting(): void {
    for (const { recorder } of this.flows) recorder.countedInRow = 0
  }

  /** When an answer last was an error or that of a policy, without a pause of the machine before; -Infinity if none was. */
  get lastOtherMs(): number {
    return Math.max(...this.flows.map(({ recorder }) => recorder.lastOtherMs))
  }

  /** Answers by a policy and errors. */
  get others(): number {
    return this.flows.reduce((sum, { recorder }) => sum + recorder.others, 0)
  }

  get decisions(): number {
    return this.flows.reduce((sum, { recorder }) => sum + recorder.decisions, 0)
  }

  /** Calls without an answer when the load had ended. */
  get unanswered(): number {
    return this.flows.reduce((sum, { recorder }) => sum + recorder.unanswered, 0)
  }

  /** Calls that were due and not made, because too many waited. */
  get dropped(): number {
    return this.flows.reduce((sum, { recorder }) => sum + recorder.dropped, 0)
  }

  /** Of `others`: soon after a pause of the machine. */
  get othersExcused(): number {
    return this.flows.reduce((sum, { recorder }) => sum + recorder.othersExcused, 0)
  }

  /** Calls given up although their policy answers, because the machine paused. */
  get givenUpExcused(): number {
    return this.flows.reduce((sum, { recorder }) => sum + recorder.givenUpExcused, 0)
  }

  /** Failed calls by cause. */
  get errors(): Record<string, number> {
    const all: Record<string, number> = {}
    for (const { recorder } of this.flows) {
      for (const [cause, count] of Object.entries(recorder.errors)) all[cause] = (all[cause] ?? 0) + count
    }
    return all
  }
}

function createCounts(): Counts {
  return { 'within limit': 0, 'over limit': 0, local: 0, allow: 0, deny: 0, failed: 0 }
}
