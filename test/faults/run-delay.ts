/**
 * How long threads of another process were ready to run and had no core, from /proc/<pid>/task/<tid>/schedstat of Linux (nanoseconds on a
 * core, nanoseconds waiting for one, slices). Elsewhere it is 0. A call passes several threads one after the other, and all the time of
 * the thread that waited most may have been in its way.
 */
import { readdirSync, readFileSync } from 'node:fs'

const INTERVAL_MS = 100
const SAMPLES = 600 // a minute; older ones are overwritten

export class RunDelayMeter {
  private readonly pid: number
  private readonly waitedNs = new Map<string, number>() // by thread, at the last sample
  private readonly atMs = new Float64Array(SAMPLES) // when the sample was taken
  private readonly mostMs = new Float64Array(SAMPLES) // since the sample before, of the thread that waited most
  private samples = 0
  private readonly timer: NodeJS.Timeout

  constructor(pid: number) {
    this.pid = pid
    this.sample()
    this.timer = setInterval(() => this.sample(), INTERVAL_MS)
    this.timer.unref()
  }

  /** Upper bound of what one thread after the other waited within the time, which may reach up to now. */
  sumBetween(fromMs: number, toMs: number): number {
    if (this.samples > 0 && toMs > this.atMs[(this.samples - 1) % SAMPLES]) this.sample()
    let sum = 0
    for (let i = this.samples - 1; i >= Math.max(0, this.samples - SAMPLES); i--) {
      const endMs = this.atMs[i % SAMPLES]
      if (endMs <= fromMs) break
      const startMs = i === 0 ? 0 : this.atMs[(i - 1) % SAMPLES]
      if (startMs < toMs) sum += this.mostMs[i % SAMPLES]
    }
    return sum
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private sample(): void {
    let most = 0
    try {
      for (const thread of readdirSync(`/proc/${this.pid}/task`)) {
        const text = readFileSync(`/proc/${this.pid}/task/${thread}/schedstat`, 'latin1')
        const ns = Number(text.split(' ')[1])
        most = Math.max(most, ns - (this.waitedNs.get(thread) ?? ns))
        this.waitedNs.set(thread, ns)
      }
    } catch {
      // a thread has ended meanwhile, the process has, or the system has no such file
    }
    this.atMs[this.samples % SAMPLES] = performance.now()
    this.mostMs[this.samples % SAMPLES] = most / 1e6
    this.samples++
  }
}
