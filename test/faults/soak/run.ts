/**
 * A soak run: the real service with real stores under steady load, one fault after the other, samples all the time.
 *
 *     timed          ── warm-up ──┬─ fault ─┬──── quiet ────┬─ fault ─┬──── quiet ──── …       as long as given
 *                                 └───────── everyMs ───────┘
 *     event-driven   ── counted ── fault ── its effect is seen ── it ends ── counted again ── fault …       each fault once
 *
 * The event-driven form waits for states alone, so it holds on a busy machine too; only the timed form has bounds on time.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../../helpers/eventually.ts'
import { type RunningService, spawnService } from '../../helpers/service.ts'
import { createFaults, type Fault } from './faults.ts'
import { createRules, type Interval, Load, type LoadOptions, type Passed } from './load.ts'
import { type ProcessSample, readProcess, ThreadsPoller, type ThreadsSample } from './samples.ts'
import { type Store, startMemcachedStore, startRedisStore } from './stores.ts'

export interface SoakOptions {
  store: 'redis' | 'memcached'
  workers: number
  ratePerSec: number // 0 = what `share` of the measured rate is
  share: number // of the rate that the service reaches, 0 to 1
  measureMs: number // of each rate that is tried
  sampleMs: number
  rules: number // in the file that is reloaded
  connections: number // of each of the five domains
  minuteKeys: string
  secondKeys: string
  pace:
    | { kind: 'timed'; totalMs: number; everyMs: number; faultMs: number }
    | { kind: 'events'; names: string[] }
  env: Record<string, string>
  report(line: string): void
}

export interface Sample extends Interval {
  sec: number // since the load began, at its end
  seconds: number // what `counts` are of
  process: ProcessSample | null // null = it has ended
}

export interface FaultRun {
  name: string
  fromSec: number
  toSec: number
  /** Its effect was observed before the next fault began: on a busy machine a reload may end after the fault that caused it. */
  isSeen: boolean
  /** It ends a thread, and the calls that this thread had. */
  isRestart: boolean
  /** From its end to the last answer that the store did not count, before the next fault, pauses of the machine left out; 0 = none. */
  backMs: number
  /** When the next fault began, whatever this one changed was as before. */
  isOver: boolean
}

export interface SoakResult {
  measuredPerSec: number // 0 = not measured
  ratePerSec: number
  seconds: number
  samples: Sample[]
  threads: (ThreadsSample & { sec: number })[] // each about a second after the one before
  faults: FaultRun[]
  othersBefore: number // answers not counted by the store without a pause of the machine before, from its first counts to the first fault
  limit: Passed | null // null = memcached, which counts after the answer
  decisions: number
  dropped: number
  unanswered: number
  warmSec: number // when calls of each domain were first counted: connections and code were new before
  givenUpExcused: number // calls given up although their policy answers, because the machine paused
  errors: Record<string, number>
  exitCode: number | null // of the service
}

const STREAMS = 100
const MEASURE_STREAMS = 16
const RATE_SHARES = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1] // of the rate of a closed loop
const P99_MS_MAX = 20 // the default timeout of Envoy's rate limit filter
const SUSTAINED_SHARE = 0.98 // of the calls that are due
const COUNTED_MIN = 20 // answers in a row of each domain that show that the store counts again

/** The machine says nothing about the service. */
export class BusyMachineError extends Error {}

export async function runSoak(options: SoakOptions): Promise<SoakResult> {
  const { store: kind, workers } = options
  const store = await (kind === 'redis' ? startRedisStore() : startMemcachedStore())
  const perSecond = kind === 'redis' ? await startRedisStore() : null
  const service = spawnService({ rules: createRules(), env: createEnv(options, store, perSecond) })
  try {
    await service.logged("Listening for HTTP on '")
    const measuredPerSec = options.ratePerSec > 0 ? 0 : await measureRate(service, options)
    const ratePerSec = options.ratePerSec || Math.round(options.share * measuredPerSec)
    options.report(`${ratePerSec} calls per second to ${workers} workers with ${store.name}`)
    const load = new Load({ ...toLoadOptions(service, options), ratePerSec, streams: STREAMS })
    const run = new Run(service, load, options)
    const faults = createFaults({
      ...{ service, store, perSecond, workers, rules: options.rules },
      countOthers: () => load.others,
    })
    await run.start()
    try {
      if (options.pace.kind === 'timed') await run.followTime(faults, options.pace)
      else await run.followEvents(options.pace.names.map((name) => findFault(faults, name)))
    } finally {
      await run.stop()
    }
    const { code } = await service.stop()
    const result = run.result()
    const losses = result.faults.filter(({ name }) => name === `${store.name} killed`).length
    const limit = kind === 'redis' ? load.judgeLimit(losses) : null
    return { ...result, limit, measuredPerSec, ratePerSec, exitCode: code }
  } finally {
    await service.stop('SIGKILL')
    await store.stop()
    await perSecond?.stop()
  }
}

function createEnv(
  { workers, env }: SoakOptions,
  store: Store,
  perSecond: Store | null,
): Record<string, string> {
  const stores: Record<string, string> =
    perSecond === null
      ? { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: store.address }
      : {
          REDIS_URL: store.address,
          REDIS_PERSECOND: 'true',
          REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
          REDIS_PERSECOND_URL: perSecond.address,
        }
  return { WORKERS: String(workers), DEGRADED_HEADER: 'true', ...stores, ...env }
}

function toLoadOptions(
  service: RunningService,
  options: SoakOptions,
): Omit<LoadOptions, 'ratePerSec' | 'streams'> {
  const { connections, minuteKeys, secondKeys } = options
  return { grpcAddress: service.address('gRPC'), connections, minuteKeys, secondKeys }
}

/**
 * The highest rate at which the same calls, made when they are due, are all counted by the store and answered in time. Found from above:
 * a closed loop, whose calls come in large batches, reaches more.
 */
async function measureRate(service: RunningService, options: SoakOptions): Promise<number> {
  const closed = await tryRate(service, options, 0)
  for (const share of RATE_SHARES) {
    const ratePerSec = Math.round(share * closed.perSec)
    const { perSec, isSustained } = await tryRate(service, options, ratePerSec)
    options.report(
      `${Math.round(perSec)} of ${ratePerSec} calls per second${isSustained ? '' : ': not sustained'}`,
    )
    if (isSustained) return perSec
  }
  throw new BusyMachineError(
    `no share of ${Math.round(closed.perSec)} calls per second is sustained: the machine is too busy`,
  )
}

/** `ratePerSec` 0 = closed loop. */
async function tryRate(service: RunningService, options: SoakOptions, ratePerSec: number) {
  const streams = ratePerSec === 0 ? MEASURE_STREAMS : STREAMS
  const load = new Load({ ...toLoadOptions(service, options), ratePerSec, streams })
  await load.start()
  await sleep(options.measureMs / 4)
  load.takeInterval()
  const [before, othersBefore, fromMs] = [load.decisions, load.others, performance.now()]
  await sleep(options.measureMs)
  const perSec = ((load.decisions - before) * 1_000) / (performance.now() - fromMs)
  const { p99Ms } = load.takeInterval()
  const isSustained =
    load.others === othersBefore && (p99Ms ?? 0) <= P99_MS_MAX && perSec >= SUSTAINED_SHARE * ratePerSec
  await load.stop()
  return { perSec, isSustained }
}

function findFault(faults: readonly Fault[], name: string): Fault {
  const fault = faults.find((each) => each.name === name)
  if (!fault) throw new Error(`no fault "${name}"; there are ${faults.map((each) => each.name).join(', ')}`)
  return fault
}

class Run {
  private readonly service: RunningService
  private readonly load: Load
  private readonly options: SoakOptions
  private readonly samples: Sample[] = []
  private readonly threads: SoakResult['threads'] = []
  private readonly faults: FaultRun[] = []
  private poller: ThreadsPoller | null = null
  private timer: NodeJS.Timeout | undefined
  private startMs = 0
  private lastSampleMs = 0
  private endSec = 0
  private warmSec = 0
  private othersAtStart = 0
  private othersBefore = 0
  private last: { fault: Fault; run: FaultRun } | null = null

  constructor(service: RunningService, load: Load, options: SoakOptions) {
    this.service = service
    this.load = load
    this.options = options
  }

  async start(): Promise<void> {
    await this.load.start()
    this.startMs = this.lastSampleMs = performance.now()
    const { debug } = this.service
    this.poller = new ThreadsPoller(debug, this.options.workers, (sample) => {
      this.threads.push({ ...sample, sec: this.nowSec() })
    })
    this.timer = setInterval(() => this.sample(), this.options.sampleMs)
    await this.becomesCounted()
    this.warmSec = this.nowSec()
    this.othersAtStart = this.countUnexcused()
  }

  async followTime(
    faults: readonly Fault[],
    pace: { totalMs: number; everyMs: number; faultMs: number },
  ): Promise<void> {
    const { totalMs, everyMs, faultMs } = pace
    const count = Math.floor(totalMs / everyMs) - 1 // the last minute is quiet
    const later = faults.filter(({ isRestart }) => !isRestart)
    for (let i = 0; i < count; i++) {
      const fault = faults[i] ?? later[(i - faults.length) % later.length]
      await sleep(Math.max(0, this.startMs + (i + 1) * everyMs - performance.now()))
      await this.inject(fault, () => sleep(faultMs))
    }
    await sleep(Math.max(0, this.startMs + totalMs - performance.now()))
  }

  async followEvents(faults: readonly Fault[]): Promise<void> {
    for (const fault of faults) {
      await this.inject(fault, () => becomesTrue(() => fault.isSeen()))
      if (fault.isOver) await becomesTrue(fault.isOver)
      await this.becomesCounted()
      await this.nextSample()
    }
  }

  async stop(): Promise<void> {
    await this.completeLast()
    clearInterval(this.timer)
    await this.load.stop()
    this.sample()
    this.endSec = this.nowSec()
    await this.poller?.stop()
  }

  result() {
    const { load } = this
    return {
      seconds: this.endSec,
      samples: this.samples,
      threads: this.threads,
      faults: this.faults,
      othersBefore: this.othersBefore,
      warmSec: this.warmSec,
      decisions: load.decisions,
      dropped: load.dropped,
      unanswered: load.unanswered,
      givenUpExcused: load.givenUpExcused,
      errors: load.errors,
    }
  }

  private async inject(fault: Fault, wait: () => Promise<unknown>): Promise<void> {
    await this.completeLast()
    if (this.faults.length === 0) this.othersBefore = this.countUnexcused() - this.othersAtStart
    this.options.report(`${this.nowSec().toFixed(1)} s: ${fault.name}`)
    const run: FaultRun = {
      name: fault.name,
      fromSec: this.nowSec(),
      toSec: 0,
      isSeen: false,
      isRestart: fault.isRestart === true,
      backMs: 0,
      isOver: false,
    }
    await fault.begin()
    await wait()
    run.isSeen = await fault.isSeen()
    await fault.end()
    run.toSec = this.nowSec()
    this.faults.push(run)
    this.last = { fault, run }
  }

  /** The latest fault has had its time to pass. */
  private async completeLast(): Promise<void> {
    if (this.last === null) return
    const { fault, run } = this.last
    this.last = null
    run.backMs = Math.max(0, this.load.lastOtherMs - this.startMs - run.toSec * 1_000)
    run.isSeen ||= await fault.isSeen()
    run.isOver = fault.isOver === undefined || (await fault.isOver())
  }

  private countUnexcused(): number {
    return this.load.others - this.load.othersExcused
  }

  private becomesCounted(): Promise<void> {
    this.load.restartCounting()
    return becomesTrue(async () => this.load.isCounted(COUNTED_MIN))
  }

  /** Resolves after the next sample. */
  private async nextSample(): Promise<void> {
    const count = this.samples.length
    await becomesTrue(async () => this.samples.length > count)
  }

  private sample(): void {
    const nowMs = performance.now()
    const interval = this.load.takeInterval()
    this.samples.push({
      ...interval,
      sec: (nowMs - this.startMs) / 1_000,
      seconds: (nowMs - this.lastSampleMs) / 1_000,
      process: readProcess(this.service.child.pid!),
    })
    this.lastSampleMs = nowMs
  }

  private nowSec(): number {
    return (performance.now() - this.startMs) / 1_000
  }
}

function becomesTrue(check: () => Promise<boolean>): Promise<void> {
  return eventually(async () => {
    if (!(await check())) throw new Error(`still waiting for ${check}`)
  })
}
