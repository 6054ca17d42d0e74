/**
 * The event loop and the clocks of a schedule, without real time.
 *
 *     turn:  wait until something is due ─► timers ─► arrivals (bytes, calls), in random order ─► setImmediate
 *              └ meanwhile, and while the thread is blocked: the world (servers, faults), each event at its time
 *
 * Timers are those of Node: whole milliseconds, counted from the beginning of the turn, so they may fire up to a millisecond before the
 * precise clock says so. Arrivals of one channel (a direction of a connection) keep their order. After each callback the queues
 * of process.nextTick and of promises run until they are empty, as in Node.
 */
import type { Random } from './random.ts'

interface Timer {
  dueMs: number // of the loop's clock, whole
  order: number
  run: () => void
}

interface Arrival {
  atMs: number
  order: number
  channel: number
  run: () => void
}

/** What setTimeout returns. */
export class TimerHandle {
  readonly timer: Timer

  constructor(timer: Timer) {
    this.timer = timer
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

export const NO_CHANNEL = 0 // arrivals without an order among them

const TIMER_MS_MAX = 2 ** 31 - 1

export class VirtualTime {
  /** Milliseconds since the start; what performance.now returns. */
  nowMs = 1_000 // the process has run for a while
  private wallOffsetMs: number
  private loopMs = 1_000 // whole; read once per turn
  private readonly random: Random
  private readonly onError: (error: unknown) => void
  private readonly nextTick = process.nextTick
  private order = 0
  private timers: Timer[] = []
  private readonly arrivals: Arrival[] = [] // by time, then order
  private readonly world: Arrival[] = [] // by time, then order
  private immediates: (() => void)[] = []
  private channelsCount = NO_CHANNEL
  /** When the thread was blocked: start and end. */
  readonly stalls: [number, number][] = []

  /** `onError` receives what a callback throws. */
  constructor(epochMs: number, random: Random, onError: (error: unknown) => void) {
    this.wallOffsetMs = epochMs - this.nowMs
    this.random = random
    this.onError = onError
  }

  get timersCount(): number {
    return this.timers.length
  }

  /** What Date.now returns. */
  get wallMs(): number {
    return Math.floor(this.nowMs + this.wallOffsetMs)
  }

  /** The wall clock is set forward, or back. */
  stepWallClock(ms: number): void {
    this.wallOffsetMs += ms
  }

  /** The thread is blocked, the world is not. */
  stall(ms: number): void {
    const endMs = this.nowMs + ms
    this.stalls.push([this.nowMs, endMs])
    this.runWorld(endMs)
    this.nowMs = endMs
  }

  createChannel(): number {
    return ++this.channelsCount
  }

  /** `run` is called by the event loop at `atMs`, or when the thread comes to it. */
  arrive(atMs: number, channel: number, run: () => void): void {
    insert(this.arrivals, { atMs, order: this.order++, channel, run })
  }

  /** `run` happens at `atMs` exactly, outside the thread. */
  happen(atMs: number, run: () => void): void {
    insert(this.world, { atMs, order: this.order++, channel: NO_CHANNEL, run })
  }

  readonly setTimeout = (run: () => void, ms = 1): TimerHandle => {
    const wholeMs = ms >= 1 && ms <= TIMER_MS_MAX ? Math.trunc(ms) : 1
    const timer = { dueMs: this.loopMs + wholeMs, order: this.order++, run }
    this.timers.push(timer)
    return new TimerHandle(timer)
  }

  readonly clearTimeout = (handle: TimerHandle | undefined): void => {
    const at = handle === undefined ? -1 : this.timers.indexOf(handle.timer)
    if (at >= 0) this.timers.splice(at, 1)
  }

  readonly setImmediate = (run: () => void): void => {
    this.immediates.push(run)
  }

  /** Runs turns until the clock has reached `endMs` and nothing earlier is left to do. */
  async runUntil(endMs: number): Promise<void> {
    await this.drain() // of what the caller has begun
    while (await this.turn(endMs));
    if (this.nowMs < endMs) this.nowMs = endMs
  }

  /** One turn of the event loop. False: nothing is due before `endMs`. */
  async turn(endMs: number): Promise<boolean> {
    if (!this.wait(endMs)) return false
    this.loopMs = Math.floor(this.nowMs)
    const dueTimers = this.timers.filter(({ dueMs }) => dueMs <= this.loopMs)
    dueTimers.sort((a, b) => a.dueMs - b.dueMs || a.order - b.order)
    for (const timer of dueTimers) {
      const at = this.timers.indexOf(timer)
      if (at < 0) continue // cleared by an earlier one
      this.timers.splice(at, 1)
      await this.call(timer.run)
    }
    for (const run of this.takeArrivals()) await this.call(run)
    const immediates = this.immediates
    this.immediates = []
    for (const run of immediates) await this.call(run)
    return true
  }

  /** Moves the clock to what is due next. What happens in the world until then may add to it. */
  private wait(endMs: number): boolean {
    for (;;) {
      const nextMs = this.getNextMs()
      const worldMs = this.world[0]?.atMs ?? Number.POSITIVE_INFINITY
      if (Math.min(nextMs, worldMs) > endMs) return false
      if (worldMs <= nextMs) this.runWorld(worldMs)
      else {
        this.nowMs = nextMs
        return true
      }
    }
  }

  private getNextMs(): number {
    if (this.immediates.length > 0) return this.nowMs + this.random.between(0.002, 0.05) // what the last turn took
    let nextMs = this.arrivals[0]?.atMs ?? Number.POSITIVE_INFINITY
    for (const { dueMs } of this.timers) nextMs = Math.min(nextMs, dueMs)
    return Math.max(this.nowMs, nextMs + this.random.between(0, 0.02))
  }

  private runWorld(endMs: number): void {
    while (this.world.length > 0 && this.world[0].atMs <= endMs) {
      const { atMs, run } = this.world.shift()!
      this.nowMs = Math.max(this.nowMs, atMs)
      try {
        run()
      } catch (error) {
        this.onError(error)
      }
    }
  }

  /** Those that are due, the channels in random order. */
  private takeArrivals(): (() => void)[] {
    const due: Arrival[] = []
    while (this.arrivals.length > 0 && this.arrivals[0].atMs <= this.nowMs) due.push(this.arrivals.shift()!)
    const taken: (() => void)[] = []
    while (due.length > 0) {
      const picked = this.random.int(0, due.length - 1)
      const { channel } = due[picked]
      const at = channel === NO_CHANNEL ? picked : due.findIndex((arrival) => arrival.channel === channel)
      taken.push(due.splice(at, 1)[0].run)
    }
    return taken
  }

  private async call(run: () => void): Promise<void> {
    try {
      run()
    } catch (error) {
      this.onError(error)
    }
    await this.drain()
  }

  /** The second tick is queued by a promise, so it runs when no promise is left to continue. */
  private async drain(): Promise<void> {
    await new Promise<void>((resolve) => this.nextTick.call(process, resolve))
    await new Promise<void>((resolve) => this.nextTick.call(process, resolve))
  }
}

function insert(queue: Arrival[], arrival: Arrival): void {
  let at = queue.length
  while (at > 0 && queue[at - 1].atMs > arrival.atMs) at--
  queue.splice(at, 0, arrival)
}
