/**
 * The planner of one vantage: which probe starts now (spec 6.4). Deterministic: it has no clock, timer or randomness of its
 * own. Times are milliseconds of any monotonic clock.
 *
 *     put(site) ─► heap, by due time ─► queues of what is due ─► due(now): runs to start ─► finish(run, result)
 *                        ▲               detections, full,                                      │
 *                        │               light; each by due time                                │
 *                        └── next slot, or 5 s and 15 s later to repeat a failure ◄─────────────┘
 *
 *     loop of the prober:   for (const run of planner.due(now)) start(run)      at wakeMs(), and after every finish()
 *                           planner.resolved(run.id, addresses, now)            after DNS; false = it is queued again
 *                           planner.finish(run.id, result, now)                 'store' the outcome, try 'again', or 'drop' it
 *
 * No starvation: within a queue the longest waiting task is considered first, network places it lacks are reserved for it,
 * and the three kinds have separate places. Missed slots are not made up: a site is queued once.
 */
import type { Outcome } from '../facts.ts'
import { DueHeap, type HeapItem } from './heap.ts'
import {
  type Claim,
  DETECTIONS_MAX,
  FULL_MAX,
  LIGHT_MAX,
  listNetworks,
  type RunKind,
  Running,
  StartRate,
} from './limits.ts'
import {
  backedOff,
  FULL_INTERVAL_MS,
  firstSlotMs,
  nextSlot,
  REPEATS,
  RETRY_AFTER_MAX_MS,
  repeatDelayMs,
} from './schedule.ts'

const KINDS: readonly RunKind[] = ['detection', 'full', 'light'] // by priority
const DETECTIONS_WAITING_MAX = 100 // beyond, detect() returns false
// Between full probes that changes of state request, so that flapping is cheap; also after an inconclusive one.
const FULL_GAP_MS = 30 * 60_000
const RUN_MAX_MS = 10 * 60_000 // a run that never finished, as of an agent that died, releases its places

export interface PlannerOptions {
  random: () => number // 0 to 1, 1 excluded
  lightMax?: number
  fullMax?: number
  detectionsMax?: number
  repeatsMax?: number // PROBE_RETRIES
  isTurn?: (slug: string, dueMs: number) => boolean // false: other vantages probe this slot (schedule.ts)
}

/** A site to be probed, with its state before a restart. */
export interface PlannedSite {
  slug: string
  intervalMs: number
  addresses?: readonly string[] // of its last resolution
  lastFullAgoMs?: number | null // null = never
  downs?: number // in a row
  downForMs?: number
}

export interface Run {
  id: number
  kind: RunKind
  key: string // slug; of a detection its id
  plannedMs: number // the slot it belongs to
  repeatsDone: number // earlier attempts of this probe, all down
}

export interface RunResult {
  outcome: Outcome
  retryAfterMs?: number // Retry-After of a 429 or 503
}

interface Owner {
  key: string // of the site: one run at a time
  networks: readonly string[]
}

interface Site extends Owner {
  intervalMs: number
  light: Task
  full: Task
  fullStartedMs: number
  outcome: Outcome | null // the last counted one
  downs: number
  downSinceMs: number
  holdUntilMs: number // by Retry-After
}

interface Task extends HeapItem {
  kind: RunKind
  key: string
  owner: Owner
  plannedMs: number
  repeatsDone: number
}

interface RunningTask {
  task: Task
  claim: Claim
  startedMs: number
}

export class Planner {
  private readonly random: () => number
  private readonly isTurn: (slug: string, dueMs: number) => boolean
  private readonly repeatsMax: number
  private readonly sites = new Map<string, Site>()
  private readonly heap = new DueHeap<Task>()
  private readonly queues: Record<RunKind, Task[]> = { detection: [], full: [], light: [] }
  private readonly runs = new Map<number, RunningTask>() // oldest first
  private readonly running: Running
  private readonly rate = new StartRate()
  private nextId = 1
  readonly totals = { starts: 0, skippedSlots: 0, lostRuns: 0 }

  constructor({ random, lightMax, fullMax, detectionsMax, repeatsMax, isTurn }: PlannerOptions) {
    this.random = random
    this.isTurn = isTurn ?? (() => true)
    this.repeatsMax = repeatsMax ?? REPEATS
    this.running = new Running({
      detection: detectionsMax ?? DETECTIONS_MAX,
      full: fullMax ?? FULL_MAX,
      light: lightMax ?? LIGHT_MAX,
    })
  }

  get sitesCount(): number {
    return this.sites.size
  }

  /** A new site, or a new interval for a known one. As many as the catalogue may hold (5,000). */
  put(planned: PlannedSite, nowMs: number): void {
    const { slug, intervalMs } = planned
    const known = this.sites.get(slug)
    if (known?.intervalMs === intervalMs) return
    const site = known ?? newSite(planned, nowMs)
    site.intervalMs = intervalMs
    this.sites.set(slug, site)
    const firstMs = firstSlotMs(slug, intervalMs, nowMs)
    if (known === undefined || known.light.heapIndex >= 0) this.plan(site.light, firstMs)
    if (known !== undefined) return
    // A site without a full probe gets it with its first light probe instead of six hours later.
    const fullMs = nowMs + FULL_INTERVAL_MS - (planned.lastFullAgoMs ?? FULL_INTERVAL_MS)
    this.plan(site.full, Math.max(fullMs, firstMs))
  }

  /** A running probe of the site may finish; its outcome is dropped. */
  remove(slug: string): void {
    const site = this.sites.get(slug)
    if (!site) return
    this.sites.delete(slug)
    for (const task of [site.light, site.full]) this.removeTask(task)
  }

  /** Queues a detection; `site` is the slug if the target is in the catalogue. Returns false if the queue is full. */
  detect(id: string, site: string, nowMs: number): boolean {
    const queue = this.queues.detection
    if (queue.length >= DETECTIONS_WAITING_MAX) return false
    queue.push({ ...newTask('detection', id, { key: site, networks: [] }), dueMs: nowMs, plannedMs: nowMs })
    return true
  }

  /** Removes a waiting detection from its queue; false = it is not queued. */
  cancel(id: string): boolean {
    const task = this.queues.detection.find(({ key }) => key === id)
    if (task) this.removeTask(task)
    return task !== undefined
  }

  /** Moves the next full probe of a changed site forward. */
  hasten(slug: string, nowMs: number): void {
    const site = this.sites.get(slug)
    if (!site || site.full.heapIndex < 0 || site.full.repeatsDone > 0) return
    const soonMs = Math.max(nowMs, site.fullStartedMs + FULL_GAP_MS, site.holdUntilMs)
    if (soonMs < site.full.dueMs) this.plan(site.full, soonMs)
  }

  /** What is to start now. A run that is not passed to finish() within ten minutes is given up. */
  due(nowMs: number): Run[] {
    this.giveUp(nowMs)
    this.collect(nowMs)
    const started: Run[] = []
    const reserved = new Map<string, number>() // places per network, kept for tasks that wait longer
    for (const kind of KINDS) this.startQueue(kind, nowMs, reserved, started)
    return started
  }

  /**
   * Reports where the run would connect to. false: the network's places are taken; the run is over, returns to its place in the
   * queue and starts again when there is room.
   */
  resolved(runId: number, addresses: readonly string[], nowMs: number): boolean {
    const run = this.runs.get(runId)
    if (!run) return false
    const networks = listNetworks(addresses)
    run.task.owner.networks = networks
    this.running.leave(run.claim)
    run.claim = { ...run.claim, networks }
    if (this.running.hasNetworks(networks)) {
      this.running.enter(run.claim)
      return true
    }
    this.runs.delete(runId)
    if (this.isPlanned(run.task)) this.enqueue(run.task, Math.min(run.task.dueMs, nowMs))
    return false
  }

  /** 'store': this is the outcome of the probe. 'again': it will be repeated first. 'drop': it is no longer wanted. */
  finish(runId: number, { outcome, retryAfterMs = 0 }: RunResult, nowMs: number): 'store' | 'again' | 'drop' {
    const run = this.runs.get(runId)
    if (!run) return 'drop'
    const { task } = run
    this.release(runId, run)
    if (task.kind === 'detection') return 'store'
    const site = this.sites.get(task.key)
    if (!site || site !== task.owner) return 'drop'
    const { repeatsDone } = task
    const delayMs = repeatDelayMs(outcome, { repeatsDone, repeatsMax: this.repeatsMax, retryAfterMs })
    if (delayMs !== null) {
      task.repeatsDone++
      this.heap.put(task, nowMs + delayMs)
      return 'again'
    }
    if (retryAfterMs > 0) site.holdUntilMs = nowMs + Math.min(RETRY_AFTER_MAX_MS, retryAfterMs)
    this.planNext(task, site, outcome, nowMs)
    return 'store'
  }

  /**
   * When to call due() again at the latest if no run finishes before; Infinity if nothing is planned. To be called right
   * after due(): what is still queued then waits for a run to finish or for the start rate.
   */
  wakeMs(nowMs: number): number {
    const [oldest] = this.runs.values()
    const giveUpMs = oldest ? oldest.startedMs + RUN_MAX_MS : Number.POSITIVE_INFINITY
    const isWaiting = KINDS.some((kind) => this.queues[kind].length > 0)
    const freeMs = this.rate.freeAtMs()
    const queueMs = isWaiting && freeMs > nowMs ? freeMs : Number.POSITIVE_INFINITY
    return Math.min(this.heap.first()?.dueMs ?? Number.POSITIVE_INFINITY, giveUpMs, queueMs)
  }

  /** How late the longest waiting run of this kind is; 0 if none waits. */
  lagMs(kind: RunKind, nowMs: number): number {
    const [first] = this.queues[kind]
    return first ? Math.max(0, nowMs - first.dueMs) : 0
  }

  private giveUp(nowMs: number): void {
    for (const [id, run] of this.runs) {
      if (nowMs - run.startedMs < RUN_MAX_MS) return
      this.totals.lostRuns++
      this.finish(id, { outcome: 'inconclusive' }, nowMs)
    }
  }

  /** Moves what is due from the heap to its queue. */
  private collect(nowMs: number): void {
    let task = this.heap.first()
    while (task && task.dueMs <= nowMs) {
      const site = task.owner as Site // detections never enter the heap
      const isOtherVantages =
        task.kind === 'light' && task.repeatsDone === 0 && !this.isTurn(task.key, task.dueMs)
      if (site.holdUntilMs > nowMs) this.plan(task, site.holdUntilMs)
      else if (isOtherVantages) this.plan(task, this.slotAfter(task.plannedMs, site, nowMs))
      else {
        this.heap.remove(task)
        this.enqueue(task, task.dueMs)
      }
      task = this.heap.first()
    }
  }

  private startQueue(kind: RunKind, nowMs: number, reserved: Map<string, number>, started: Run[]): void {
    const queue = this.queues[kind]
    let kept = 0
    let i = 0
    for (; i < queue.length && this.running.hasRoom(kind) && this.rate.freeAtMs() <= nowMs; i++) {
      const { key, networks } = queue[i].owner
      const hasSite = this.running.hasSite(key)
      if (!hasSite && this.running.hasNetworks(networks, reserved)) {
        started.push(this.start(queue[i], nowMs))
        continue
      }
      if (!hasSite) for (const network of networks) reserved.set(network, (reserved.get(network) ?? 0) + 1)
      queue[kept++] = queue[i]
    }
    queue.splice(kept, i - kept)
  }

  private start(task: Task, nowMs: number): Run {
    const { kind, key, owner, plannedMs, repeatsDone } = task
    const claim = { kind, site: owner.key, networks: owner.networks }
    const id = this.nextId++
    this.running.enter(claim)
    this.rate.record(nowMs)
    this.runs.set(id, { task, claim, startedMs: nowMs })
    this.totals.starts++
    if (kind === 'full') (owner as Site).fullStartedMs = nowMs
    return { id, kind, key, plannedMs, repeatsDone }
  }

  private release(runId: number, run: RunningTask): void {
    this.runs.delete(runId)
    this.running.leave(run.claim)
  }

  private planNext(task: Task, site: Site, outcome: Outcome, nowMs: number): void {
    task.repeatsDone = 0
    const isChange = site.outcome !== null && outcome !== 'inconclusive' && outcome !== site.outcome
    recordOutcome(site, outcome, nowMs)
    if (task.kind === 'light') {
      this.plan(task, this.slotAfter(task.plannedMs, site, nowMs))
      if (isChange) this.hasten(site.key, nowMs)
      return
    }
    this.plan(task, this.fullSlotAfter(task, site, outcome, nowMs))
    // The site has recovered: a light probe that waits for its back-off comes sooner.
    const { light } = site
    if (!isChange || outcome === 'down' || light.heapIndex < 0 || light.repeatsDone > 0) return
    const soonMs = this.slotAfter(nowMs, site, nowMs)
    if (soonMs < light.dueMs) this.plan(light, soonMs)
  }

  private slotAfter(plannedMs: number, site: Site, nowMs: number): number {
    const intervalMs = backedOff(site.intervalMs, site.downs, nowMs - site.downSinceMs)
    const { dueMs, skipped } = nextSlot(plannedMs, intervalMs, nowMs, this.random())
    this.totals.skippedSlots += skipped
    return Math.max(dueMs, site.holdUntilMs)
  }

  private fullSlotAfter({ plannedMs }: Task, site: Site, outcome: Outcome, nowMs: number): number {
    // What this host's network lost should not be missing for six hours.
    const isLost = outcome === 'inconclusive'
    const [fromMs, intervalMs] = isLost ? [nowMs, FULL_GAP_MS] : [plannedMs, FULL_INTERVAL_MS]
    const { dueMs, skipped } = nextSlot(fromMs, intervalMs, nowMs, this.random())
    this.totals.skippedSlots += skipped
    return Math.max(dueMs, site.holdUntilMs)
  }

  private plan(task: Task, dueMs: number): void {
    task.plannedMs = dueMs
    this.heap.put(task, dueMs)
  }

  /** Inserts by due time; nearly always at the end, because the heap returns that order. */
  private enqueue(task: Task, dueMs: number): void {
    const queue = this.queues[task.kind]
    task.dueMs = dueMs
    let at = queue.length
    while (at > 0 && queue[at - 1].dueMs > dueMs) at--
    queue.splice(at, 0, task)
  }

  /** Removes the task from the heap or its queue. */
  private removeTask(task: Task): void {
    this.heap.remove(task)
    const queue = this.queues[task.kind]
    const at = queue.indexOf(task)
    if (at >= 0) queue.splice(at, 1)
  }

  private isPlanned(task: Task): boolean {
    return task.kind === 'detection' || this.sites.get(task.key) === task.owner
  }
}

/** Counts failures in a row, and since when. Inconclusive outcomes change nothing. */
function recordOutcome(site: Site, outcome: Outcome, nowMs: number): void {
  if (outcome === 'inconclusive') return
  site.outcome = outcome
  if (outcome !== 'down') {
    site.downs = 0
    return
  }
  if (site.downs === 0) site.downSinceMs = nowMs
  site.downs++
}

function newSite({ slug, intervalMs, addresses, downs, downForMs }: PlannedSite, nowMs: number): Site {
  const networks = listNetworks(addresses ?? [])
  const owner: Owner = { key: slug, networks }
  const light = newTask('light', slug, owner)
  const full = newTask('full', slug, owner)
  return Object.assign(owner, {
    intervalMs,
    light,
    full,
    fullStartedMs: Number.NEGATIVE_INFINITY,
    outcome: (downs ?? 0) > 0 ? ('down' as const) : null,
    downs: downs ?? 0,
    downSinceMs: nowMs - (downForMs ?? 0),
    holdUntilMs: Number.NEGATIVE_INFINITY,
  })
}

function newTask(kind: RunKind, key: string, owner: Owner): Task {
  return { kind, key, owner, plannedMs: 0, repeatsDone: 0, dueMs: 0, heapIndex: -1 }
}
