/**
 * Gives memory back that nobody needs any more. V8 collects when a thread allocates, so one that has become idle keeps
 * what its last load left: 200 MB after 10,000 connections. A full collection of our small heaps takes 5 to 20 ms.
 *
 *     old rules image ── replaced in this thread ──► collection, a moment later ──► freed once all threads did it
 *     idle, and the heap was IDLE_GROWTH_BYTES_MIN larger ──► collection; where it helped, V8 gives back the pages it emptied
 *     GARBAGE_BYTES_MAX of a flood ──► collection; of young objects alone, 0.4 ms, where that does
 *
 * The first is needed since a SharedArrayBuffer lives as long as any thread holds an object that names it, and the collector
 * does not count such memory: each load of 100,000 rules kept 11 MB.
 */
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const REPLACED_BYTES_MIN = 1_048_576
const LATER_MS = 1_000 // by then what was decided by the old rules has been answered
const GARBAGE_BYTES_MAX = 4 * 1_048_576
const ALL_PAUSE_MS = 250 // between full collections of 10 ms, so that they take a small part of the time
const CHECK_MS = 5_000
const IDLE_SHARE_MAX = 0.05 // of the time
const IDLE_GROWTH_BYTES_MIN = 12 * 1_048_576
const CHECKS_BETWEEN_MIN = 12 // where the memory is in use, collecting does not help: not again within a minute

let timer: NodeJS.Timeout | undefined
let idle: IdleCollector | undefined

/** This thread has let go of shared memory of so many bytes. */
export function collectLater(bytes: number): void {
  if (bytes < REPLACED_BYTES_MIN) return
  if (timer !== undefined) clearTimeout(timer) // the last of several changes is followed by one collection
  timer = setTimeout(collect, LATER_MS).unref()
}

/** From now on this thread gives back, while it has little else to do, what it used when it had. */
export function collectWhenIdle(): void {
  idle = new IdleCollector(heapBytes, collect, releaseMemory)
  let before = performance.eventLoopUtilization()
  setInterval(() => {
    const now = performance.eventLoopUtilization()
    idle?.check(performance.eventLoopUtilization(now, before).utilization)
    before = now
  }, CHECK_MS).unref()
}

/** When to collect; `check` every CHECK_MS with the share of that time in which the thread was busy. */
export class IdleCollector {
  private readonly heapBytes: () => number
  private readonly collect: () => void
  private readonly releaseMemory: () => void
  private leastBytes: number // ever
  private mostBytes: number // since the last collection: what it took, V8 may keep, where no figure of the heap shows it
  private restCount = 0 // checks until the next one
  private isAwake = false

  /** `giveBack` collects too, and costs two collections: only where little is left to look through. */
  constructor(heapBytes: () => number, collect: () => void, releaseMemory: () => void) {
    this.heapBytes = heapBytes
    this.collect = collect
    this.releaseMemory = releaseMemory
    this.leastBytes = this.mostBytes = heapBytes()
  }

  check(busyShare: number): void {
    if (this.restCount > 0) this.restCount--
    this.mostBytes = Math.max(this.mostBytes, this.look())
    if (busyShare > IDLE_SHARE_MAX || this.restCount > 0 || !this.isGrown(this.mostBytes)) return
    this.collect()
    this.mostBytes = this.look()
    if (!this.isGrown(this.mostBytes)) this.releaseMemory()
    else if (!this.isAwake) this.restCount = CHECKS_BETWEEN_MIN
    this.isAwake = false
  }

  /** Something large has gone, or is just going: the next collection is not the last for a minute. */
  wake(): void {
    this.restCount = 0
    this.isAwake = true
  }

  private look(): number {
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

/** Garbage that V8 lets come together for longer than our bounds of memory can bear. */
export class Garbage {
  private bytes = 0
  private readonly collect: () => void
  private readonly pauseMs: number
  private isDue = false
  private lastMs = Number.NEGATIVE_INFINITY

  /** Of large buffers that die young: what V8 counts of them little. Of objects that were old enough to be moved: all. */
  constructor(kind: 'young' | 'all') {
    this.collect = kind === 'young' ? collectYoung : collect
    this.pauseMs = kind === 'young' ? 0 : ALL_PAUSE_MS
  }

  /** About so many bytes have become garbage. */
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
    setFlagsFromString('--expose-gc') // the only way that needs no flag of the process
    gc = runInNewContext('gc') as Gc
  }
  return gc
}

function collect(): void {
  collector()({ type: 'major' })
}

/** An ordinary collection keeps the pages that it empties for new objects: 50 MB after 10,000 connections, for ever. */
export function releaseMemory(): void {
  collector()({ type: 'major', flavor: 'last-resort' })
}

function collectYoung(): void {
  collector()({ type: 'minor' })
}
