/**
 * A scenario of the fault lab: what is started, which fault comes and goes, what is promised. To add some, put a file into `scenarios/`
 * that exports them:
 *
 *     export const scenarios: readonly Scenario[] = [
 *       underLoad({
 *         name: 'redis-killed',                            for --only; unique
 *         fault: 'Redis is killed and started again',      for the table
 *         promise: 'no count is lost beyond …',            for the table
 *         history: { isExact: false },                     what the checker must know: HistoryOptions of history.ts
 *         async start() {                                  a real store, and the settings of a service that uses it
 *           const redis = await startRedis()
 *           return { env: { REDIS_URL: redis.address }, begin, end, read, stop }
 *         },
 *       }),
 *       { name, fault, promise, run: async (options) => outcome },     one that needs no load of rate limit calls
 *     ]
 *
 * `underLoad` runs the load of load.ts throughout, in rounds, until `decisions` are made. Each round has keys of its own:
 *
 *     BEFORE_MS        faultMs               AFTER_MS
 *     ─────────┬───────────────────┬──────────────────────┬── counters of the round are compared with the store's, next round
 *              begin()             end()                  the load has keys of the next round
 *
 * Before the first round is a warm-up, which counts as a fault: the service compiles its code while the first calls come.
 * A broken invariant is in `violations`; nothing throws but a part that cannot be started. Wait for events in begin() and end().
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../../bench/size.ts'
import { type RunningService, spawnService } from '../helpers/service.ts'
import { checkEffect, checkNoneFlagged, countBreakers } from './effects.ts'
import { type Counts, History, type HistoryOptions } from './history.ts'
import { LagMeter } from './lag.ts'
import { createRules, DOMAIN, formatRules, Load, now } from './load.ts'
import type { FaultRule } from './model.ts'
import { checkResources, ResourceMeter } from './resources.ts'
import { RunDelayMeter } from './run-delay.ts'
import type { Violation } from './violations.ts'

export interface LabOptions {
  decisions: number // to be made at least, in whole rounds
  seed: number
  faultMs: number // length of the fault in each round
  ratePerSec: number // of calls
  isTimed: boolean // false: nothing depends on how busy the machine is; deadlines and recovery are not checked
  afterMs?: number // from the end of a fault to the end of its round; default AFTER_MS
  log: (text: string) => void
}

export interface Outcome {
  counts: Counts
  violations: readonly Violation[]
  rounds: number
  faults: number // that began and ended, one per round; 0 = the scenario has none
  /** Anything else worth a column: name → value with its unit. */
  figures: Record<string, string>
}

export interface Scenario {
  name: string
  fault: string
  promise: string
  /** Why it cannot run on this machine; null = it can. */
  skipReason?(): string | null
  run(options: LabOptions): Promise<Outcome>
}

/** What `begin` and `end` may use. */
export interface Stage {
  service: RunningService
  history: History
  random: () => number // of the seed
  round: number
  isTimed: boolean // LabOptions
  lagMs(fromMs: number, toMs: number): number // how late this process was
  waitedMs(fromMs: number, toMs: number): number // how long the service waited for a core
}

/** A started store. */
export interface Parts {
  env: Record<string, string> // of the service
  wrapper?: readonly string[] // runs the service (ServiceOptions)
  begin(stage: Stage): Promise<void> | void
  end(stage: Stage): Promise<void> | void
  /** Values of counters by their whole keys, null where there is none. */
  read(keys: readonly string[], isPerSecond: boolean): Promise<readonly (number | null)[]>
  stop(): Promise<void>
  /** Hits that the store counted although it replied with an error. */
  hiddenHits?(): number
  /** At the end, with the service still running: further checks, which call `history.report`. */
  check?(stage: Stage): Promise<void> | void
}

export interface LoadScenario {
  name: string
  fault: string
  promise: string
  /** What the checker must know. `backMs` is how long after a fault calls may still be degraded (default 2,000). */
  history?: HistoryOptions
  isHarmless?: boolean // calls are counted during the fault, too, without exception; of HARMLESS
  losesCounts?: boolean // the store loses all counts in each fault; with `history.losesSome` any part of them
  losesWhenBusy?: boolean // hits may be lost, too, where the service or the store has no core for as long as it waits for replies
  lossAfterMs?: number // so long after a fault counts may be lost, too; default 0
  versionsCount?: number // of the rules (default 1); `formatRules(createRules(n), version)` writes one
  env?: Record<string, string> // further settings
  units?: readonly FaultRule['unit'][] // of the rules; default all
  timeoutsMs?: readonly (number | undefined)[] // grpc-timeouts of the calls
  rssGrowthMax?: number // bytes
  skipReason?: () => string | null // Scenario.skipReason
  slowsMs?: number // the fault degrades no call for certain, but lets one wait so long
  hasOwnEffect?: boolean // it need do neither; the scenario itself checks that it did something
  hasNoFault?: boolean // the load alone
  opensBreaker?: boolean // a circuit breaker opens in each fault
  happensOnce?: boolean // one round, whose fault lasts until the decisions are made
  gapMs?: number // between the beginnings of faults, at least; default none
  knowsOutcomes?: boolean // no hit may be flagged: the service knows the outcome of each; of KNOWN
  failsPartly?: boolean // one node fails alone: hits of a call that failed may have been counted, and are not flagged
  losesConnections?: boolean // callers lose connections; hits of their calls may have been counted and are not flagged
  start(random: () => number): Promise<Parts>
}

const WARM_UP_MS = 1_000
export const BEFORE_MS = 500
export const AFTER_MS = 2_500 // longer than the 2 s within which service must be normal again

const OPERATION_TIMEOUT_MS = 400
const TIMEOUTS_MS = [undefined, undefined, 100, 250, 1_000]
const RSS_GROWTH_MAX = 200 * 2 ** 20 // V8's heaps of two workers grow by some 90 MiB each before they are collected

const LOSS_LOOK_MS = 100
const LOSS_LOOK_BACK_MS = 1_000 // twice the timeout of memcached
const LOSS_WAIT_MS = 250 // for a core, within that time

const SETTINGS = {
  WORKERS: '2',
  DEGRADED_HEADER: 'true',
  REDIS_OPERATION_TIMEOUT: `${OPERATION_TIMEOUT_MS}ms`,
  RUNTIME_WATCH_ROOT: 'false',
}

/** For faults that must not degrade any call: no deadline passes, however busy the machine is, so not one call may be degraded. */
export const HARMLESS = {
  isHarmless: true,
  env: { REDIS_OPERATION_TIMEOUT: '30s' },
  history: { deadlineMs: Number.POSITIVE_INFINITY },
  timeoutsMs: [undefined],
} satisfies Partial<LoadScenario>

/** For faults in which the outcome of no hit is unknown: nor does a deadline, however busy the machine is, make it so. */
export const KNOWN = {
  knowsOutcomes: true,
  env: { REDIS_OPERATION_TIMEOUT: '30s' },
  timeoutsMs: [undefined],
} satisfies Partial<LoadScenario>

export function underLoad(scenario: LoadScenario): Scenario {
  const { name, fault, promise, skipReason } = scenario
  return { name, fault, promise, skipReason, run: (options) => runUnderLoad(scenario, options) }
}

async function runUnderLoad(scenario: LoadScenario, options: LabOptions): Promise<Outcome> {
  const random = seeded(options.seed + 1) // the load has the seed itself
  const hasMetadata = options.seed % 2 === 1 // odd seeds: answers tell what was counted per descriptor, not only per call
  const parts = await scenario.start(random)
  const lag = new LagMeter()
  const rules = createRules(scenario.versionsCount ?? 1).filter(
    ({ unit }) => scenario.units?.includes(unit) ?? true,
  )
  const service = spawnService({
    rules: { 'faults.yaml': formatRules(rules) },
    env: {
      ...SETTINGS,
      ...(hasMetadata && { RESPONSE_DYNAMIC_METADATA: 'true' }),
      ...parts.env,
      ...scenario.env,
    },
    wrapper: parts.wrapper,
  })
  const waiting = new RunDelayMeter(service.child.pid!)
  const lagMs = (fromMs: number, toMs: number) => lag.maxBetween(fromMs, toMs)
  const waitedMs = (fromMs: number, toMs: number) => waiting.sumBetween(fromMs, toMs)
  const history = new History({
    deadlineMs: OPERATION_TIMEOUT_MS,
    lagMs,
    waitedMs,
    namePrefix: `${DOMAIN}_`,
    ...(scenario.isHarmless && { backMs: 0, isNeverDegraded: true }),
    ...scenario.history,
    ...(!options.isTimed && { deadlineMs: Number.POSITIVE_INFINITY, backMs: Number.POSITIVE_INFINITY }),
  })
  const isBusy = (nowMs: number) =>
    waitedMs(nowMs - LOSS_LOOK_BACK_MS, nowMs) + lag.maxBetween(nowMs - LOSS_LOOK_BACK_MS, nowMs) >
    LOSS_WAIT_MS
  const losing = scenario.losesWhenBusy
    ? setInterval(() => isBusy(performance.now()) && history.loseNow(), LOSS_LOOK_MS)
    : undefined
  let load: Load | null = null
  let resources: ResourceMeter | null = null
  try {
    await service.logged("Listening for HTTP on '")
    load = new Load({
      address: service.address('gRPC'),
      ratePerSec: options.ratePerSec,
      seed: options.seed,
      rules,
      timeoutsMs: options.isTimed ? (scenario.timeoutsMs ?? TIMEOUTS_MS) : [undefined],
      history,
    })
    resources = new ResourceMeter(service.child.pid!)
    history.beginWarmUp()
    await load.start()
    await sleep(WARM_UP_MS)
    history.endWarmUp(now())
    const startMs = performance.now()
    const { isTimed } = options
    const stage: Stage = { service, history, random, round: 0, isTimed, lagMs, waitedMs }
    let faults = 0
    let lastFaultMs = Number.NEGATIVE_INFINITY
    do {
      const restMs = lastFaultMs + (scenario.gapMs ?? 0) - performance.now()
      await sleep(Math.max(BEFORE_MS, restMs))
      lastFaultMs = performance.now()
      if (await runRound(scenario, options, parts, stage, load)) faults++
      stage.round++
      options.log(describeProgress(history, stage.round))
    } while (history.counts.decisions < options.decisions)
    await load.stop()
    await parts.check?.(stage)
    const stats = await service.stats()
    const { isExact = true, mayEvict = false } = scenario.history ?? {}
    const { losesCounts = false, losesConnections = false, failsPartly = false } = scenario
    const isComparable = !losesCounts && !losesConnections && !failsPartly && isExact && !mayEvict
    const unknownHits = stats['sluice.store.unknown_hits'] ?? 0
    history.checkLate()
    if (scenario.knowsOutcomes) checkNoneFlagged(history, unknownHits)
    if (isComparable) history.checkFlagged(unknownHits + (parts.hiddenHits?.() ?? 0))
    if (load.lostConnections > 0 && !losesConnections)
      history.report('connection', null, `${load.lostConnections} connections of callers were lost`)
    checkResources(resources, scenario.rssGrowthMax ?? RSS_GROWTH_MAX, (invariant, text) =>
      history.report(invariant, null, text),
    )
    return {
      counts: history.counts,
      violations: history.violations,
      rounds: stage.round,
      faults,
      figures: {
        ...describeResources(resources, lag, unknownHits),
        waited: `${Math.round((100 * waitedMs(startMs, performance.now())) / (performance.now() - startMs))} %`,
      },
    }
  } finally {
    await load?.stop()
    resources?.stop()
    lag.stop()
    clearInterval(losing)
    waiting.stop()
    await service.stop('SIGKILL')
    await parts.stop()
  }
}

/** Returns whether the fault happened. */
async function runRound(
  scenario: LoadScenario,
  options: LabOptions,
  parts: Parts,
  stage: Stage,
  load: Load,
): Promise<boolean> {
  const { history, service } = stage
  const { round } = load
  const { isHarmless = false, hasOwnEffect = false, hasNoFault = false, opensBreaker = false } = scenario
  history.takeEffect()
  const before = opensBreaker ? await countBreakers(service) : null
  if (scenario.losesCounts) history.beginLoss()
  if (!isHarmless) history.beginFault()
  await parts.begin(stage)
  await sleep(options.faultMs)
  while (scenario.happensOnce && history.counts.decisions < options.decisions) await sleep(options.faultMs)
  await parts.end(stage)
  if (!isHarmless) history.endFault(now())
  const { afterMs = AFTER_MS } = options
  const lossAfterMs = Math.min(scenario.lossAfterMs ?? 0, afterMs)
  if (lossAfterMs > 0) await sleep(lossAfterMs)
  if (scenario.losesCounts) history.endLoss()
  await sleep(afterMs - lossAfterMs)
  await load.nextRound()
  await history.closeRound(round, (keys, isPerSecond) => parts.read(keys, isPerSecond), now)
  if (before !== null && before.open > 0) return false // on a busy machine
  if (before !== null && (await countBreakers(service)).opened === before.opened) {
    history.report('effect', null, 'no circuit breaker opened in the fault of a round')
    return false
  }
  if (hasNoFault) return false
  if (!options.isTimed) return true // without deadlines a short fault may be waited out
  return isHarmless || hasOwnEffect || checkEffect(history, history.takeEffect(), scenario.slowsMs ?? null)
}

function describeResources({ first, most }: ResourceMeter, lag: LagMeter, unknownHits: number) {
  return {
    rss: `${toMib(first.rssBytes)} to ${toMib(most.rssBytes)} MiB`,
    descriptors: `${first.descriptors} to ${most.descriptors}`,
    lag: `${Math.round(lag.maxMs)} ms`,
    unknown: String(unknownHits),
  }
}

function describeProgress({ counts, violations }: History, rounds: number): string {
  const degraded = Object.values(counts.degraded).reduce((sum, each) => sum + each, 0)
  const broken = violations.reduce((sum, { count }) => sum + count, 0)
  return (
    `round ${rounds}: ${counts.calls} calls, ${counts.decisions} decisions, ${degraded} degraded, ` +
    `${counts.failed} failed, ${counts.compared} counters compared, ${broken} violations`
  )
}

function toMib(bytes: number): number {
  return Math.round(bytes / 2 ** 20)
}
