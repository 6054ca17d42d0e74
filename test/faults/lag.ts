/**
 * How late this process itself was: a timer that should run each INTERVAL_MS, and by how much it did not. The most of each BUCKET_MS is
 * kept for as long as a late call can look back.
 */
const INTERVAL_MS = 5
const BUCKET_MS = 100
const BUCKETS = 600 // a minute; older ones are overwritten

export class LagMeter {
  maxMs = 0
  private readonly buckets = new Float64Array(BUCKETS)
  private lastMs = performance.now()
  private current = Math.floor(this.lastMs / BUCKET_MS) // number of the bucket since the start of the process
  private readonly timer: NodeJS.Timeout

  constructor() {
    this.timer = setInterval(() => this.tick(), INTERVAL_MS)
    this.timer.unref()
  }

  /** The most within the time, which may reach up to now. */
  maxBetween(fromMs: number, toMs: number): number {
    let max = Math.max(0, performance.now() - this.lastMs - INTERVAL_MS)
    const last = Math.floor(toMs / BUCKET_MS)
    const first = Math.max(0, Math.floor(fromMs / BUCKET_MS), last - BUCKETS + 1)
    for (let bucket = first; bucket <= last; bucket++)
      if (bucket <= this.current) max = Math.max(max, this.buckets[bucket % BUCKETS])
    return max
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private tick(): void {
    const nowMs = performance.now()
    const lagMs = Math.max(0, nowMs - this.lastMs - INTERVAL_MS)
    const bucket = Math.floor(nowMs / BUCKET_MS)
    while (this.current < bucket) this.buckets[++this.current % BUCKETS] = 0
    // the delay covers all buckets since the last run
    for (let i = Math.floor(this.lastMs / BUCKET_MS); i <= bucket; i++)
      this.buckets[i % BUCKETS] = Math.max(this.buckets[i % BUCKETS], lagMs)
    this.maxMs = Math.max(this.maxMs, lagMs)
    this.lastMs = nowMs
  }
}
