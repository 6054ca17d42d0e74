/** Whole days of the planner with a clock of its own: are its limits kept at every moment, and is every site probed? */
import { describe, expect, test } from 'vitest'
import { Planner, type Run } from '../../../monitor/scheduler/planner.ts'
import { seed, seeded, size } from '../../helpers/size.ts'

const SEC = 1_000
const MIN = 60 * SEC
const HOUR = 60 * MIN
const DAY = 24 * HOUR

interface World {
  sites: number
  perNetwork: number // sites that share a /24
  intervalMs: number
  lengthMs: number
  durationMs: (random: () => number, site: number) => number
  isDown?: (site: number, nowMs: number) => boolean
  detections?: boolean
  learnsLate?: boolean // addresses are known only after DNS
}

interface Seen {
  startsMs: Map<string, number[]> // `light s3` → starts
  stored: number
  starts: number
  broken: string[]
}

/** Simulates a prober: starts what is due, finishes it when its time is over, watches the limits with books of its own. */
function simulate(world: World): { seen: Seen; planner: Planner } {
  const random = seeded(seed())
  const planner = new Planner({ random: seeded(seed() + 1) })
  const toAddress = (site: number) =>
    `9.${Math.floor(site / world.perNetwork / 256)}.${Math.floor(site / world.perNetwork) % 256}.1`
  for (let i = 0; i < world.sites; i++) {
    const addresses = world.learnsLate ? [] : [toAddress(i)]
    planner.put(
      { slug: `s${i}`, intervalMs: world.intervalMs, lastFullAgoMs: random() * 6 * HOUR, addresses },
      0,
    )
  }
  const seen: Seen = { startsMs: new Map(), stored: 0, starts: 0, broken: [] }
  const books = new Books(seen)
  let ending: { run: Run; site: number; atMs: number }[] = []
  let detectionsCount = 0
  let nowMs = 0
  while (nowMs < world.lengthMs) {
    const over = ending.filter(({ atMs }) => atMs <= nowMs)
    ending = ending.filter(({ atMs }) => atMs > nowMs)
    for (const { run, site } of over) {
      books.leave(run)
      const outcome = world.isDown?.(site, nowMs) ? 'down' : 'up'
      if (planner.finish(run.id, { outcome }, nowMs) === 'store') seen.stored++
    }
    if (world.detections)
      while (planner.detect(`d${detectionsCount}`, `t${detectionsCount}`, nowMs)) detectionsCount++
    for (const run of planner.due(nowMs)) {
      const site = Number(run.key.slice(1))
      books.start(run, nowMs)
      const address = run.kind === 'detection' ? `11.${site % 200}.0.1` : toAddress(site)
      if (!planner.resolved(run.id, [address], nowMs)) continue
      books.enter(run, address)
      ending.push({ run, site, atMs: nowMs + Math.ceil(world.durationMs(random, site)) })
    }
    const nextEndMs = ending.reduce((soonest, { atMs }) => Math.min(soonest, atMs), Number.POSITIVE_INFINITY)
    const nextMs = Math.min(nextEndMs, planner.wakeMs(nowMs))
    if (nextMs <= nowMs) seen.broken.push(`the clock would stand still at ${nowMs}`)
    if (seen.broken.length > 0) break
    nowMs = nextMs
  }
  return { seen, planner }
}

/** The limits as the specification has them, kept without the planner's own code. */
class Books {
  private readonly seen: Seen
  private readonly running = new Map<number, { run: Run; address: string }>()
  private lastSecond: number[] = []

  constructor(seen: Seen) {
    this.seen = seen
  }

  start(run: Run, nowMs: number): void {
    this.seen.starts++
    this.lastSecond = [...this.lastSecond.filter((atMs) => atMs > nowMs - SEC), nowMs]
    if (this.lastSecond.length > 50) this.seen.broken.push(`${this.lastSecond.length} starts in a second`)
    if (run.repeatsDone > 0) return
    const name = `${run.kind} ${run.key}`
    const starts = this.seen.startsMs.get(name)
    if (starts) starts.push(nowMs)
    else this.seen.startsMs.set(name, [nowMs])
  }

  enter(run: Run, address: string): void {
    const others = [...this.running.values()]
    const kindCount = others.filter((other) => other.run.kind === run.kind).length + 1
    if (kindCount > { light: 32, full: 4, detection: 4 }[run.kind])
      this.seen.broken.push(`${kindCount} ${run.kind}`)
    if (others.some((other) => other.run.key === run.key)) this.seen.broken.push(`${run.key} runs twice`)
    if (others.filter((other) => other.address === address).length >= 2)
      this.seen.broken.push(`3 in ${address}`)
    this.running.set(run.id, { run, address })
  }

  leave(run: Run): void {
    this.running.delete(run.id)
  }
}

/** The longest time between two starts of any site's light probe, also before its first and after its last. */
function longestGapMs(seen: Seen, world: World): number {
  let longest = 0
  for (let i = 0; i < world.sites; i++) {
    const starts = [0, ...(seen.startsMs.get(`light s${i}`) ?? []), world.lengthMs]
    for (let at = 1; at < starts.length; at++) longest = Math.max(longest, starts[at] - starts[at - 1])
  }
  return longest
}

const days = size({ small: 1, full: 7 })

describe('M13#9 6.4: days of probing keep every limit and starve no site', () => {
  test('an easy day: every slot is met, within the jitter', () => {
    const world: World = {
      sites: 200,
      perNetwork: 10,
      intervalMs: 5 * MIN,
      lengthMs: days * DAY,
      durationMs: (random) => 100 + 900 * random(),
    }
    const { seen, planner } = simulate(world)
    expect(seen.broken).toEqual([])
    expect(longestGapMs(seen, world)).toBeLessThan(5.5 * MIN + 15 * SEC) // jitter, and a little waiting
    expect(planner.totals.skippedSlots).toBe(0)
    const slots = days * 200 * (288 + 4)
    expect(Math.abs(seen.stored - slots)).toBeLessThan(slots * 0.01)
  })

  test('half of the sites down and slow: back-off, and no other site is late', () => {
    const world: World = {
      sites: 120,
      perNetwork: 10,
      intervalMs: 5 * MIN,
      lengthMs: days * DAY,
      durationMs: (random, site) => (site % 2 ? 10 * SEC : 500) * (0.5 + random()),
      isDown: (site) => site % 2 === 1,
    }
    const { seen } = simulate(world)
    expect(seen.broken).toEqual([])
    const countStarts = (site: number) => seen.startsMs.get(`light s${site}`)!.length
    for (let site = 0; site < 120; site += 2) expect(countStarts(site)).toBeGreaterThan(280 * days)
    for (let site = 1; site < 120; site += 2) expect(countStarts(site)).toBeLessThan(40 * days)
    expect(longestGapMs(seen, world)).toBeLessThan(67 * MIN + MIN) // an hour and its jitter
  })

  test('overload, crowded networks, endless detections: each site gets its share', () => {
    const world: World = {
      sites: 200,
      perNetwork: 50,
      intervalMs: MIN,
      lengthMs: days * 6.5 * HOUR,
      durationMs: (random) => 4 * SEC + 4 * SEC * random(),
      detections: true,
    }
    const { seen, planner } = simulate(world)
    expect(seen.broken).toEqual([])
    expect(planner.totals.skippedSlots).toBeGreaterThan(0)
    const counts = Array.from({ length: 200 }, (_, i) => seen.startsMs.get(`light s${i}`)?.length ?? 0)
    // 8 places for 200 sites of 6 s each: once in 150 s, and the full probes take some of that.
    expect(longestGapMs(seen, world)).toBeLessThan(5 * MIN)
    expect(Math.max(...counts) / Math.min(...counts)).toBeLessThan(1.5)
    const full = Array.from({ length: 200 }, (_, i) => seen.startsMs.get(`full s${i}`)?.length ?? 0)
    expect(Math.min(...full)).toBeGreaterThanOrEqual(days)
  })

  test('addresses are known only after DNS: the limit per network still holds', () => {
    const world: World = {
      sites: 120,
      perNetwork: 40,
      intervalMs: 2 * MIN,
      lengthMs: days * 6 * HOUR,
      durationMs: (random) => 2 * SEC * random() + 500,
      learnsLate: true,
    }
    const { seen } = simulate(world)
    expect(seen.broken).toEqual([])
    expect(longestGapMs(seen, world)).toBeLessThan(3 * MIN)
  })
})
