/**
 * Runs one schedule: the product's engines and stores on simulated servers, in virtual time; the oracle judges each answer.
 *
 *     plan ──► calls ──► Engine, RedisStore or MemcacheStore (as they are) ──► simulated sockets ──► models of the servers
 *                │                                                                                         │
 *                └──────────── answers ──► oracle ◄──────────── what was really counted ───────────────────┘
 */
import { Engine } from '../../engine/decision/engine.ts'
import { unitSec, windowStartSec } from '../../engine/decision/window.ts'
import { compile } from '../../engine/match/compile.ts'
import { Stats } from '../../engine/stats/stats.ts'
import type { CounterStore } from '../../engine/stores/counter-store.ts'
import { MemcacheStore } from '../../engine/stores/memcached/memcached-store.ts'
import { createMemoryTable, MemoryStore } from '../../engine/stores/memory/memory-store.ts'
import { OverLimitCache } from '../../engine/stores/over-limit-cache.ts'
import { type RedisOptions, RedisStore } from '../../engine/stores/redis/redis-store.ts'
import { encodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import { rule } from '../engine/harness.ts'
import { checkLeftovers, isEveryBreakerOpen } from './bounds.ts'
import { Executions } from './executions.ts'
import { scheduleFault } from './faults.ts'
import { replaceGlobals } from './globals.ts'
import { MemcachedModel } from './memcached-model.ts'
import { createConnect, Server, type Trace } from './network.ts'
import { type Answer, type AskedCall, type Flagged, Oracle, Violation } from './oracle.ts'
import { DISTURBING, type Plan, type PlannedCall, RECOVERY_MS } from './plan.ts'
import { Random } from './random.ts'
import { RedisModel } from './redis-model.ts'
import { NO_CHANNEL, VirtualTime } from './virtual-time.ts'

const PORT = 6_379
const TABLE_BYTES = 1 << 18
const CACHE_BYTES = 1 << 19
const CONNECT_MS_MAX = 50
const LATE_ANSWERS_MS = 2_500 // after the last call: longer than any timeout

export interface Outcome {
  violation: Violation | null
  callsCount: number
  decisionsCount: number // descriptors answered, those of failed and cancelled calls left out
  degradedCount: number // answers without a count, and failed calls
  virtualMs: number // of the whole schedule
}

interface Worker {
  engine: Engine
  store: CounterStore
  stats: Stats
  version: number
}

/** Runs a plan. `trace` receives a line per event. Nothing else may run in the thread meanwhile. */
export async function runSchedule(
  plan: Plan,
  trace: ((line: string) => void) | null = null,
): Promise<Outcome> {
  const schedule = new Schedule(plan, trace)
  return schedule.run()
}

class Schedule {
  private readonly plan: Plan
  private readonly time: VirtualTime
  private readonly executions = new Executions()
  private readonly servers: Server[] = []
  private readonly models: (RedisModel | MemcachedModel)[] = []
  private readonly oracle: Oracle
  private readonly trace: Trace
  private readonly images
  private workers: Worker[] = []
  private violation: Violation | null = null
  private readonly asked: AskedCall[] = []
  private decisionsCount = 0
  private degradedCount = 0
  private resetsCount = 0
  private startMs = 0

  constructor(plan: Plan, trace: ((line: string) => void) | null) {
    this.plan = plan
    const onError = (error: unknown) => this.onError(error)
    this.time = new VirtualTime(plan.epochMs, new Random(plan.seed, 'order'), onError)
    const { time } = this
    this.trace = trace && ((text) => trace(`${time.nowMs.toFixed(3).padStart(10)}  ${text}`))
    const random = new Random(plan.seed, 'network')
    for (let i = 0; i < plan.serversCount; i++) {
      const Model = plan.store === 'redis' ? RedisModel : MemcachedModel
      const model = new Model(this.executions, () => time.nowMs, random.next)
      this.models.push(model)
      const { failuresInRow } = plan.settings.breaker
      const onSentAgain = (text: string) =>
        onError(new Violation('the breaker opens after failed trips in a row', text))
      const around = { time, random, trace: this.trace, failuresInRow, onSentAgain }
      this.servers.push(new Server(`${plan.store}-${i}`, model, around))
    }
    this.oracle = new Oracle(plan, this.executions, time.stalls)
    this.images = plan.versions.map((rules, version) => {
      const nodes = rules.map(({ limit, policy, share }, i) => {
        const node = rule(`k${i}`, { requestsPerUnit: limit, unit: plan.units[i], name: `v${version}` })
        return { ...node, onStoreError: policy, localShare: share }
      })
      return compile([{ name: 'd', nodes }])
    })
  }

  async run(): Promise<Outcome> {
    const { plan, time } = this
    const restore = replaceGlobals(time, new Random(plan.seed, 'product'), createConnect(this.servers))
    try {
      await this.open()
      if (this.violation === null) await this.play()
      if (this.violation === null) await this.finish()
    } catch (error) {
      this.onError(error)
    } finally {
      restore()
    }
    return {
      violation: this.violation,
      callsCount: this.asked.length,
      decisionsCount: this.decisionsCount,
      degradedCount: this.degradedCount,
      virtualMs: time.nowMs,
    }
  }

  private onError(error: unknown): void {
    if (this.violation !== null) return // later ones are its consequences
    const isOwn = error instanceof Violation
    this.violation = isOwn ? error : new Violation('no exception', String((error as Error).stack ?? error))
    this.trace?.(`VIOLATION ${this.violation.message}`)
  }

  private async open(): Promise<void> {
    const table = createMemoryTable(TABLE_BYTES)
    this.workers = Array.from({ length: this.plan.workersCount }, () => this.createWorker(table))
    let connectedCount = 0
    for (const { store } of this.workers)
      void store.connect().then(
        () => connectedCount++,
        (error) => this.onError(error),
      )
    await this.time.runUntil(this.time.nowMs + CONNECT_MS_MAX)
    if (connectedCount < this.workers.length)
      throw new Violation('stores connect', `${connectedCount} connected`)
  }

  private createWorker(table: SharedArrayBuffer): Worker {
    const { settings } = this.plan
    const stats = new Stats()
    const store = this.createStore(stats)
    const engine = new Engine({
      ...{ store, stats, decisionsStat: 'decisions', nearLimitRatio: 0.8, keyPrefix: '' },
      nowSec: () => Math.floor(Date.now() / 1_000),
      random: Math.random,
      ...{ isShadow: false, isQuota: false, headerNames: null, hasDegradedHeader: false },
      jitterMaxSec: settings.jitterMaxSec,
      stopIncrementWhenOverLimit: settings.stopIncrementWhenOverLimit,
      hasMetadata: settings.hasMetadata,
      localCache: settings.hasLocalCache ? new OverLimitCache(CACHE_BYTES, () => {}) : null,
      storeErrorPolicy: settings.defaultPolicy,
      localStore: new MemoryStore(table),
      decisionTimeoutMs: settings.decisionTimeoutMs,
    })
    engine.setRules(this.images[0])
    return { engine, store, stats, version: 0 }
  }

  private createStore(stats: Stats): CounterStore {
    const { plan, servers } = this
    const { breaker, operationTimeoutMs, connectTimeoutMs } = plan.settings
    const log = (level: string, text: string) => this.trace?.(`log ${level}: ${text}`)
    const onHealth = () => {}
    const addresses = servers.map(({ name }) => `${name}:${PORT}`)
    if (plan.store === 'memcached') {
      const options = { hostPort: addresses, srv: '', srvRefreshMs: 0, tls: null, isErrorZero: false }
      return new MemcacheStore(
        { ...options, timeoutMs: operationTimeoutMs, breaker },
        { log, stats, onHealth },
      )
    }
    const startup = { initialMs: 1_000, maxMs: 1_000, maxElapsedMs: 0 }
    const [main, perSecond] = addresses.map((url): RedisOptions => {
      return {
        url,
        socketType: 'tcp',
        auth: '',
        timeoutMs: connectTimeoutMs,
        operationTimeoutMs,
        startup,
        breaker,
      }
    })
    return new RedisStore({ ...main, perSecond: perSecond ?? null }, { log, stats, onHealth })
  }

  private async play(): Promise<void> {
    const { plan, time } = this
    this.startMs = time.nowMs
    for (const fault of plan.faults) {
      scheduleFault(fault, this.startMs, {
        ...{ time, servers: this.servers, models: this.models, trace: this.trace },
        reload: () => this.reload(),
        onReset: () => this.resetsCount++,
      })
    }
    for (const call of plan.calls) time.arrive(this.startMs + call.atMs, NO_CHANNEL, () => this.ask(call))
    const endMs = this.startMs + plan.endMs
    while (this.violation === null && (await time.turn(endMs)));
  }

  /** Each worker gets the rules a moment after the other. */
  private reload(): void {
    const { time } = this
    for (const [i, worker] of this.workers.entries()) {
      time.arrive(time.nowMs + i * 0.3, NO_CHANNEL, () => {
        worker.version = Math.min(worker.version + 1, this.images.length - 1)
        this.trace?.(`worker ${i}: version ${worker.version} of the rules`)
        worker.engine.setRules(this.images[worker.version])
      })
    }
  }

  private ask(call: PlannedCall): void {
    const { time, asked: calls, trace, oracle } = this
    const { settings } = this.plan
    const { engine, version } = this.workers[call.worker]
    const asked = this.createAsked(call, version)
    calls.push(asked)
    const { number } = asked
    const names = call.descriptors.map(({ rule: index, value }) => `k${index}=${value}`).join(' ')
    const timeout = call.timeoutMs === Number.POSITIVE_INFINITY ? '' : `, timeout ${call.timeoutMs} ms`
    trace?.(`call ${number} to worker ${call.worker}: ${names}, hits ${call.hits}${timeout}`)
    oracle.onAsked(asked)
    let degradedBy: Answer['degradedBy'] = null
    const answer = (response: RateLimitResponse | null, error: Error | null) => {
      if (response !== null && !asked.isCancelled) this.decisionsCount += asked.keys.length
      if (error !== null || degradedBy !== null) this.degradedCount++
      trace?.(`call ${number} ${showAnswer(response, error)}${degradedBy === null ? '' : ` (${degradedBy})`}`)
      oracle.onAnswered(asked, { atMs: time.nowMs, response, error, degradedBy })
    }
    const callback = {
      get isCancelled() {
        return asked.isCancelled
      },
      deadlineMs: time.nowMs + call.timeoutMs,
      onDegraded: (policy: Answer['degradedBy']) => {
        degradedBy = policy
      },
      onDecision: (response: RateLimitResponse) => answer(response, null),
      onError: (error: Error) => answer(null, error),
    }
    if (call.cancelAfterMs !== Number.POSITIVE_INFINITY) {
      time.arrive(time.nowMs + call.cancelAfterMs, NO_CHANNEL, () => {
        if (asked.answersCount === 0) asked.isCancelled = true
      })
    }
    const request = toRequest(call)
    if (call.isBytes && !settings.hasMetadata) engine.decideBytes(encodeRequest(request), callback)
    else engine.decide(request, callback)
    // its hits are sent when the turn ends, in which a probe's reply may have closed the breaker
    time.setImmediate(() => {
      asked.isRefused &&= isEveryBreakerOpen(this.workers[call.worker])
    })
  }

  private createAsked(call: PlannedCall, version: number): AskedCall {
    const { time, plan, startMs } = this
    const { decisionTimeoutMs } = plan.settings
    const nowSec = Math.floor(time.wallMs / 1_000)
    const lengthsSec = call.descriptors.map((descriptor) => unitSec(plan.units[descriptor.rule]))
    const starts = lengthsSec.map((lengthSec) => windowStartSec(nowSec, lengthSec))
    const askedMs = time.nowMs
    const timeoutMs = Math.min(call.timeoutMs, decisionTimeoutMs || Number.POSITIVE_INFINITY)
    const isDisturbed = (answeredMs: number) =>
      plan.faults.some(({ kind, atMs, endMs }) => {
        const isDisturbing = (DISTURBING as readonly string[]).includes(kind)
        return isDisturbing && startMs + atMs <= answeredMs && startMs + endMs + RECOVERY_MS > askedMs
      })
    return {
      ...{ call, version, askedMs, lengthsSec, isDisturbed, number: this.asked.length },
      dueMs: askedMs + timeoutMs,
      isRefused: isEveryBreakerOpen(this.workers[call.worker]),
      keys: call.descriptors.map(({ rule: index, value }, i) => `d_k${index}_${value}_${starts[i]}`),
      windowEndsMs: starts.map((start, i) => askedMs + 1_000 * (start + lengthsSec[i]) - time.wallMs),
      answersCount: 0,
      isCancelled: false,
    }
  }

  private async finish(): Promise<void> {
    const { time, plan, workers } = this
    const endMs = time.nowMs + LATE_ANSWERS_MS
    while (this.violation === null && (await time.turn(endMs)));
    if (this.violation !== null) return
    const unanswered = this.asked.filter(({ answersCount }) => answersCount === 0)
    if (unanswered.length > 0)
      throw new Violation(
        'each call is answered once',
        `${unanswered.length} are not, first call ${unanswered[0].number}`,
      )
    const flagged = { unknownHits: 0, lostHits: 0 }
    for (const { stats } of workers) addFlagged(flagged, stats)
    const hasLoss = plan.faults.some(({ kind }) => kind !== 'reload' && kind !== 'stall')
    this.oracle.finish(flagged, hasLoss, this.resetsCount)
    checkLeftovers(this)
    await this.close()
  }

  /** Stores close when no more calls arrive. */
  private async close(): Promise<void> {
    let closedCount = 0
    for (const { store } of this.workers) void store.close().then(() => closedCount++)
    await this.time.runUntil(this.time.nowMs + LATE_ANSWERS_MS)
    const linksCount = this.servers.reduce((sum, { links }) => sum + links.size, 0)
    if (closedCount === this.workers.length && linksCount === 0 && this.time.timersCount === 0) return
    throw new Violation(
      'stores close',
      `${closedCount} closed, ${linksCount} connections and ${this.time.timersCount} timers are left`,
    )
  }
}

function toRequest({ descriptors, hits }: PlannedCall): RateLimitRequest {
  return {
    domain: 'd',
    hitsAddend: hits === 1 ? 0 : hits,
    descriptors: descriptors.map(({ rule: index, value, hits: hitsAddend }) => {
      return { entries: [{ key: `k${index}`, value }], limit: null, hitsAddend }
    }),
  }
}

function addFlagged(flagged: Flagged, stats: Stats): void {
  const { names, values } = stats.takeDeltas()
  const read = (name: string) => values[names.indexOf(`sluice.store.${name}`)] ?? 0
  flagged.unknownHits += read('unknown_hits')
  flagged.lostHits += read('lost_hits')
}

function showAnswer(response: RateLimitResponse | null, error: Error | null): string {
  if (response === null) return `failed: ${error!.message}`
  const shown = response.statuses.map(({ code, limitRemaining, currentLimit }) => {
    const per =
      currentLimit === null ? 'no limit' : `${limitRemaining} of ${currentLimit.requestsPerUnit} remain`
    return `${code === 1 ? 'OK' : 'OVER_LIMIT'}, ${per}`
  })
  return `answered: ${shown.join('; ')}`
}
