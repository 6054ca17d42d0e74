/**
 * What a schedule does, drawn from its seed before it runs: settings, rules, calls and faults. Whatever depends on the run itself (delays,
 * pieces of replies, order of arrivals) is drawn from other streams of the same seed.
 *
 *     0 ───── calls, faults ─────► last fault ends ── 2 s ── calls that must be counted again ──► end
 */
import { STORE_ERROR_POLICIES, type StoreErrorPolicy } from '../../engine/config/rules.ts'
import type { BreakerOptions } from '../../engine/stores/circuit-breaker.ts'
import { Unit } from '../../proto/ratelimit.ts'
import { Random } from './random.ts'

export const RULES_COUNT = 4
export const RECOVERY_MS = 2_000 // normal service is promised this long after the last fault
const FIRST_CALL_MS = 60 // the stores are connected by then
const HITS_MAX = 3
const CROWD_FILLING_MIN = 70 // more than the batches that a store has in flight
const CROWD_WAITING_MAX = 40
const CROWD_DELAY_MS_MIN = 15 // of the slow server, in each direction: shorter than this, the store is not filled
const NOON_SEC = 1_763_640_000 // a multiple of a day

export type StoreKind = 'redis' | 'memcached'

/** A rule of one version. */
export interface PlannedRule {
  limit: number
  policy: StoreErrorPolicy | null
  share: number | null // percent
}

export interface PlannedCall {
  atMs: number
  worker: number
  descriptors: { rule: number; value: string; hits: number | null }[]
  hits: number
  timeoutMs: number // Infinity = none
  isBytes: boolean
  cancelAfterMs: number // Infinity = never
}

/** These disturb the service: answers may be degraded until RECOVERY_MS after them. */
export const DISTURBING = ['pause', 'partition', 'slow', 'cut', 'lost', 'down', 'errors', 'stall'] as const
/** These must not be noticed, except that counters restart when they are evicted. */
export const HARMLESS = ['reload', 'evict', 'flush scripts', 'step clock'] as const
export type FaultKind = (typeof DISTURBING)[number] | (typeof HARMLESS)[number]

export interface PlannedFault {
  kind: FaultKind
  server: number
  atMs: number
  endMs: number // = atMs for those that take no time
  /** Delay of `slow`, step of `step clock` in ms; share of `errors` and `evict`; losing data in `down`: 0 or 1. */
  amount: number
  error: string // of `errors`
  commands: readonly string[] // of `errors`; empty = all
}

export interface Plan {
  seed: number
  store: StoreKind
  serversCount: number // Redis: 2 = the second counts limits per second; memcached: nodes
  workersCount: number
  epochMs: number
  settings: PlannedSettings
  units: Unit[] // by rule
  versions: PlannedRule[][] // by version, by rule
  calls: PlannedCall[]
  faults: PlannedFault[]
  endMs: number
}

export interface PlannedSettings {
  defaultPolicy: StoreErrorPolicy
  stopIncrementWhenOverLimit: boolean
  hasLocalCache: boolean
  hasMetadata: boolean
  jitterMaxSec: number
  decisionTimeoutMs: number
  connectTimeoutMs: number
  operationTimeoutMs: number
  breaker: BreakerOptions
}

export function drawPlan(seed: number): Plan {
  const random = new Random(seed, 'plan')
  const store = random.chance(0.7) ? 'redis' : 'memcached'
  const settings = drawSettings(random, store)
  const serversCount = random.chance(0.35) ? 2 : 1
  const workersCount = store === 'redis' && random.chance(0.4) ? 2 : 1 // two workers race in memcached (spec 4.3)
  const mainMs = random.between(150, 2_500)
  const faults = drawFaults(random, store, serversCount, mainMs)
  const quietMs = faults.reduce((latest, { endMs }) => Math.max(latest, endMs), mainMs) + RECOVERY_MS
  const units = Array.from({ length: RULES_COUNT }, () =>
    random.pick([Unit.Second, Unit.Second, Unit.Minute, Unit.Hour]),
  )
  const versionsCount = 1 + faults.filter(({ kind }) => kind === 'reload').length
  const isShared = store === 'redis' && !settings.stopIncrementWhenOverLimit // a descriptor may come twice in a request
  const drawCallAt = (atMs: number) => drawCall(random, atMs, workersCount, isShared)
  const calls = drawTimes(random, mainMs, quietMs).map(drawCallAt)
  return {
    ...{ seed, store, serversCount, workersCount, settings, units, faults },
    epochMs: 1_000 * NOON_SEC + random.int(0, 3_600_000),
    versions: Array.from({ length: versionsCount }, () => drawRules(random)),
    calls: [...calls, ...drawCrowds(seed, faults, isShared)].sort((a, b) => a.atMs - b.atMs),
    endMs: quietMs + 700,
  }
}

function drawSettings(random: Random, store: StoreKind): PlannedSettings {
  return {
    defaultPolicy: random.pick(STORE_ERROR_POLICIES),
    stopIncrementWhenOverLimit: store === 'redis' && random.chance(0.3),
    hasLocalCache: random.chance(0.4),
    hasMetadata: random.chance(0.3),
    jitterMaxSec: random.pick([0, 0, 5]),
    decisionTimeoutMs: random.pick([0, 0, 10, 50]),
    connectTimeoutMs: random.pick([200, 1_000, 10_000]),
    operationTimeoutMs: store === 'redis' ? random.pick([30, 100, 500, 1_000]) : random.pick([100, 500]),
    breaker: {
      failuresInRow: random.pick([0, 2, 5, 5]),
      share: random.pick([0.5, 1]),
      windowMs: random.pick([500, 2_000]),
      latencyMs: random.pick([0, 0, 20]),
      silenceMs: random.pick([0, 50, 50]),
      probeIntervalMs: random.pick([50, 200]),
      successes: random.int(1, 3),
    },
  }
}

function drawRules(random: Random): PlannedRule[] {
  return Array.from({ length: RULES_COUNT }, () => ({
    limit: random.pick([0, 1, 2, 5, 10, 20, 40]),
    policy: random.chance(0.7) ? random.pick(STORE_ERROR_POLICIES) : null,
    share: random.chance(0.3) ? random.int(1, 100) : null,
  }))
}

/** Single calls, bursts, some while the service recovers and some when it must have. Ascending. */
function drawTimes(random: Random, mainMs: number, quietMs: number): number[] {
  const times: number[] = []
  const callsCount = random.int(15, 70)
  while (times.length < callsCount) {
    const atMs = FIRST_CALL_MS + random.between(0, mainMs)
    const burst = random.chance(0.2) ? random.int(2, random.chance(0.1) ? 90 : 12) : 1
    const gapMs = random.pick([0, 0.3, 2])
    for (let i = 0; i < burst; i++) times.push(atMs + i * gapMs)
  }
  for (let i = random.int(4, 14); i > 0; i--) times.push(random.between(mainMs, quietMs))
  for (let i = random.int(5, 10); i > 0; i--) times.push(quietMs + random.between(1, 400))
  return times.sort((a, b) => a - b)
}

/**
 * While a server is slow, as many batches as may be in flight (64 and, with Redis, one that waits), then calls until their replies come:
 * these wait for capacity, and some reach their deadlines or are cancelled meanwhile.
 *
 *     slow ── FILLING calls, a batch each ── more calls wait ──── first replies: the batch that waited is sent ──── its replies
 */
function drawCrowds(seed: number, faults: readonly PlannedFault[], isShared: boolean): PlannedCall[] {
  const random = new Random(seed, 'crowds') // of its own, so that crowds change nothing else of a plan
  return faults.flatMap(({ kind, amount, atMs, endMs }) => {
    if (kind !== 'slow' || amount < CROWD_DELAY_MS_MIN || endMs - atMs < 2 * amount) return []
    const fillingCount = random.int(CROWD_FILLING_MIN, 2 * CROWD_FILLING_MIN)
    const waitingCount = random.int(1, CROWD_WAITING_MAX)
    const times = [
      ...Array.from({ length: fillingCount }, (_, i) => atMs + 0.2 * i),
      ...Array.from({ length: waitingCount }, () => atMs + random.between(0, 2 * amount)),
    ]
    return times.map((each) => drawCall(random, each, 1, isShared))
  })
}

function drawCall(random: Random, atMs: number, workersCount: number, isShared: boolean): PlannedCall {
  const descriptors: PlannedCall['descriptors'] = []
  for (let i = random.pick([1, 1, 1, 2, 3]); i > 0; i--) {
    const descriptor = {
      rule: random.int(0, RULES_COUNT - 1),
      value: random.pick(['a', 'a', 'b']),
      hits: random.chance(0.05) ? random.int(1, HITS_MAX) : null,
    }
    const isKnown = descriptors.some(
      ({ rule, value }) => rule === descriptor.rule && value === descriptor.value,
    )
    if (isShared || !isKnown) descriptors.push(descriptor)
  }
  return {
    atMs,
    descriptors,
    worker: random.int(0, workersCount - 1),
    hits: random.chance(0.2) ? random.int(2, HITS_MAX) : 1,
    timeoutMs: random.pick([Number.POSITIVE_INFINITY, 12, 20, 60, 200]),
    isBytes: random.chance(0.7),
    cancelAfterMs: random.chance(0.05) ? random.between(0, 100) : Number.POSITIVE_INFINITY,
  }
}

const REDIS_ERRORS: [text: string, commands: readonly string[]][] = [
  ["OOM command not allowed when used memory > 'maxmemory'.", ['INCRBY']],
  ['READONLY You can not write against a read only replica.', ['INCRBY', 'EXPIRE', 'EVAL', 'EVALSHA']],
  ['LOADING Redis is loading the dataset in memory', []],
  ['MASTERDOWN Link with MASTER is down', []],
  ['BUSY Redis is busy running a script.', []],
  ['NOPERM this user has no permissions to run this command', ['EXPIRE']],
  ['ERR internal error', ['INCRBY', 'GET']],
  ['ERR internal error', ['EXPIRE']],
]

function drawFaults(random: Random, store: StoreKind, serversCount: number, mainMs: number): PlannedFault[] {
  const faults: PlannedFault[] = []
  for (let i = random.pick([0, 1, 1, 2, 2, 3, 4]); i > 0; i--) {
    const kind = random.pick(random.chance(0.65) ? DISTURBING : HARMLESS)
    if (kind === 'flush scripts' && store === 'memcached') continue
    const atMs = FIRST_CALL_MS + random.between(0, mainMs)
    const isInstant = (HARMLESS as readonly string[]).includes(kind)
    const ms = drawDurationMs(random, kind)
    const [error, commands] = random.pick(REDIS_ERRORS)
    const fault = {
      kind,
      server: random.int(0, serversCount - 1),
      atMs,
      endMs: isInstant ? atMs : atMs + ms,
      error,
      commands,
    }
    faults.push({ ...fault, amount: drawAmount(random, kind) })
  }
  return faults.sort((a, b) => a.atMs - b.atMs)
}

function drawDurationMs(random: Random, kind: FaultKind): number {
  if (kind === 'stall') return random.between(5, 600)
  if (kind === 'cut') return random.pick([0.01, random.between(0, 2), random.between(0, 100)]) // replies are lost meanwhile
  return random.pick([random.between(1, 100), random.between(50, 2_500)])
}

function drawAmount(random: Random, kind: FaultKind): number {
  if (kind === 'slow') return random.pick([3, 15, 60, 300])
  if (kind === 'errors') return random.pick([0.1, 0.5, 1])
  if (kind === 'evict') return random.pick([0.3, 1])
  if (kind === 'down') return random.pick([0, 1])
  if (kind === 'step clock') return random.pick([-1, 1]) * random.pick([3, 500, 1_500, 61_000])
  return 0
}
