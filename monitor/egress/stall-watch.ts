/**
 * Whether this thread stalled while a visit was under way. During a stall deadlines keep running and fire before sockets
 * are read, so a target that responded in time looks silent: neither a failure nor a time of such a visit can be trusted.
 *
 *     const watch = startStallWatch()
 *     …
 *     watch.stop()   // ms stalled since the start; 0 on a thread that is merely busy
 */

const TICK_MS = 100
const STALL_MIN_MS = 250 // a longer gap between two ticks is a stall, a shorter one is load

export interface StallWatch {
  stop(): number // call once
}

/** One timer for all watches; it runs only while there are any. */
export class StallDetector {
  private readonly nowMs: () => number
  private watches = 0
  private timer: NodeJS.Timeout | undefined
  private lastMs = 0
  private totalMs = 0

  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  start(): StallWatch {
    if (this.watches++ === 0) {
      this.lastMs = this.nowMs()
      this.timer = setInterval(() => this.tick(), TICK_MS)
      this.timer.unref()
    }
    this.tick()
    const beforeMs = this.totalMs
    return {
      stop: () => {
        this.tick() // the current gap counts
        if (--this.watches === 0) clearInterval(this.timer)
        return this.totalMs - beforeMs
      },
    }
  }

  tick(): void {
    const nowMs = this.nowMs()
    const gapMs = nowMs - this.lastMs
    if (gapMs >= STALL_MIN_MS) this.totalMs += gapMs
    this.lastMs = nowMs
  }
}

const detector = new StallDetector(() => performance.now())

export function startStallWatch(): StallWatch {
  return detector.start()
}
