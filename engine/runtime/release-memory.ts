/**
 * Releases unused memory. V8 collects when a thread allocates, so an idle thread keeps the garbage of its last load: 200 MB
 * after 10,000 connections. A full collection of these small heaps takes 5 to 20 ms.
 *
 *     old rules image ── replaced in this thread ──► collection, a second later ──► freed when all threads have done so
 *     idle, and the heap was IDLE_GROWTH_BYTES_MIN larger ──► collection; if that helped, V8 releases the emptied pages
 *     GARBAGE_BYTES_MAX of a flood ──► collection; of young objects only, 0.4 ms, if that is enough
 *
 * The first is needed because a SharedArrayBuffer is freed only when no thread has an object that refers to it, and the
 * collector does not count such memory: each load of 100,000 rules kept 11 MB.
 */
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const REPLACED_BYTES_MIN = 1_048_576
const LATER_MS = 1_000 // by then, requests decided by the old rules have ended
const GARBAGE_BYTES_MAX = 4 * 1_048_576
const ALL_PAUSE_MS = 250 // between full collections of 10 ms each
const CHECK_MS = 5_000
const IDLE_SHARE_MAX = 0.05 // of the time
const IDLE_GROWTH_BYTES_MIN = 12 * 1_048_576
const CHECKS_BETWEEN_MIN = 12 // memory in use cannot be released: wait for a minute

let timer: NodeJS.Timeout | undefined
let idle: IdleCollector | undefined

/** Call after this thread has dropped its references to shared memory of this size. */
export function collectLater(bytes: number): void {
  if (bytes < REPLACED_BYTES_MIN) return
  if (timer !== undefined) clearTimeout(timer) // one collection after the last of several changes
  timer = setTimeout(collect, LATER_MS).unref()
}

/** From now on, this thread releases unused memory when it is idle. */
export function collectWhenIdle(): void {
  idle = new IdleCollector(heapBytes, collect, releaseMemory)
  let last = performance.eventLoopUtilization()
  setInterval(() => {
    const now = performance.eventLoopUtilization()
    idle?.check(performance.eventLoopUtilization(now, last).utilization)
    last = now
  }, CHECK_MS).unref()
}

/** Decides when to collect. Call `check` every CHECK_MS with the share of that time in which the thread was busy. */
export class IdleCollector {
  private readonly heapBytes: () => number
  private readonly collect: () => void
  private readonly releaseMemory: () => void
  private leastBytes: number // ever
  private mostBytes: number // since the last collection; V8 may keep such pages unseen by heap statistics
  private restCount = 0 // checks to skip
  private isAwake = false

  /** `releaseMemory` costs two collections, so it is only called when the heap has become small. */
  constructor(heapBytes: () => number, collect: () => void, releaseMemory: () => void) {
    this.heapBytes = heapBytes
    this.collect = collect
    this.releaseMemory = releaseMemory
    this.leastBytes = this.mostBytes = heapBytes()
  }

  check(busyShare: number): void {
    if (this.restCount > 0) this.restCount--
    this.mostBytes = Math.max(this.mostBytes, this.sample())
    if (busyShare > IDLE_SHARE_MAX || this.restCount > 0 || !this.isGrown(this.mostBytes)) return
    this.collect()
    this.mostBytes = this.sample()
    if (!this.isGrown(this.mostBytes)) this.releaseMemory()
    else if (!this.isAwake) this.restCount = CHECKS_BETWEEN_MIN
    this.isAwake = false
  }

  /** Much memory was released or is about to be: do not wait for a minute after the next collection. */
  wake(): void {
    this.restCount = 0
    this.isAwake = true
  }

  private sample(): number {
    const bytes = this.heapBytes()
    this.leastBytes = Math.min(this.leastBytes, bytes)
    return bytes
  }

  private isGrown(bytes: number): boolean {
    return bytes - this.leastBytes >= IDLE_GROWTH_BYTES_MIN
  }
}

function heapBytes(): number {
  const { total_heap_size, external_memory } = getHeapStatistics()
  return total_heap_size + external_memory
}

/** Counts garbage of which V8 would let too much accumulate. */
export class Garbage {
  private bytes = 0
  private readonly collect: () => void
  private readonly pauseMs: number
  private isDue = false
  private lastMs = Number.NEGATIVE_INFINITY

  /** `young`: large buffers that die young, which V8 hardly counts. `all`: objects that lived long enough to be promoted. */
  constructor(kind: 'young' | 'all') {
    this.collect = kind === 'young' ? collectYoung : collect
    this.pauseMs = kind === 'young' ? 0 : ALL_PAUSE_MS
  }

  /** About `bytes` have become garbage. */
  add(bytes: number): void {
    this.bytes += bytes
    if (this.bytes < GARBAGE_BYTES_MAX || this.isDue) return
    this.isDue = true
    const restMs = this.lastMs + this.pauseMs - performance.now()
    setTimeout(() => this.clear(), Math.max(0, restMs)).unref()
  }

  private clear(): void {
    this.bytes = 0
    this.isDue = false
    this.lastMs = performance.now()
    this.collect()
    idle?.wake()
  }
}

type Gc = (options: { type: 'major' | 'minor'; flavor?: 'last-resort' }) => void
let gc: Gc | undefined

function collector(): Gc {
  if (gc === undefined) {
    setFlagsFromString('--expose-gc') // needs no command line flag
    gc = runInNewContext('gc') as Gc
  }
  return gc
}

function collect(): void {
  collector()({ type: 'major' })
}

/** An ordinary collection keeps emptied pages for new objects: 50 MB after 10,000 connections, for ever. */
export function releaseMemory(): void {
  collector()({ type: 'major', flavor: 'last-resort' })
}

function collectYoung(): void {
  collector()({ type: 'minor' })
}
