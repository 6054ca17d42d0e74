/**
 * Wakes a thread at even intervals that are shorter than the 1 ms of Node's timers.
 *
 *     clock thread   sleeps until just before call k ── message ──►  main   polls the last microseconds, then calls
 *
 * Polling all the time would take a whole core, and Redis may share it. Above CALLS_PER_SEC_MAX main polls nevertheless: it
 * would be woken so often that it hardly slept.
 */
import { writeFileSync } from 'node:fs'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

const EARLY_MS = 0.06 // about the duration of a wake-up and a message
const CALLS_PER_SEC_MAX = 25_000
const TIMER_MS = 1 // Node's shortest
const SLACK_NS = '1000' // how late the kernel may end a sleep; 50,000 by default

interface Beat {
  beginNs: number // of process.hrtime: the same in all threads
  periodNs: number
  /** [0]: 1 = a message is in flight, further ones are not sent; 2 = end. */
  state: Int32Array
}

export class Clock {
  private readonly turn: () => number
  private readonly state = new Int32Array(new SharedArrayBuffer(4))
  private worker: Worker | null = null
  private isRunning = false

  /** `turn` does what is due and returns the ms until its next call. */
  constructor(turn: () => number) {
    this.turn = turn
  }

  /** Calls `turn` from now on, `ratePerSec` times per second. */
  start(ratePerSec: number): void {
    this.isRunning = true
    this.poll()
    if (ratePerSec > CALLS_PER_SEC_MAX) return
    reduceTimerSlack()
    const beginNs = Number(process.hrtime.bigint())
    const beat: Beat = { beginNs, periodNs: 1e9 / ratePerSec, state: this.state }
    this.worker = new Worker(new URL(import.meta.url), { workerData: beat })
    this.worker.on('message', () => {
      Atomics.compareExchange(this.state, 0, 1, 0) // unless it has ended
      this.poll()
    })
  }

  stop(): void {
    this.isRunning = false
    Atomics.store(this.state, 0, 2)
  }

  private readonly poll = (): void => {
    if (!this.isRunning) return
    const restMs = this.turn()
    if (restMs <= EARLY_MS || (this.worker === null && restMs < TIMER_MS)) setImmediate(this.poll)
    else if (this.worker === null) setTimeout(this.poll, TIMER_MS)
  }
}

/** For threads that start later. */
function reduceTimerSlack(): void {
  try {
    writeFileSync('/proc/self/timerslack_ns', SLACK_NS)
  } catch {
    // not Linux, or not permitted: the clock is about 50 us late, which is part of the reported lag
  }
}

function beat({ beginNs, periodNs, state }: Beat): void {
  const sleeping = new Int32Array(new SharedArrayBuffer(4))
  while (Atomics.load(state, 0) !== 2) {
    const sinceNs = Number(process.hrtime.bigint()) - beginNs + EARLY_MS * 1e6
    const nextNs = (Math.floor(sinceNs / periodNs) + 1) * periodNs
    Atomics.wait(sleeping, 0, 0, (nextNs - sinceNs) / 1e6)
    if (Atomics.compareExchange(state, 0, 0, 1) === 0) parentPort!.postMessage(null)
  }
}

if (!isMainThread && workerData?.periodNs) beat(workerData)
