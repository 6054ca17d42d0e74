/** The charts of a report, as SVG. Colours come from the style of the page. */
import type { Bucket } from './histogram.ts'
import type { Point } from './recorder.ts'

const WIDTH = 720
const HEIGHT = 260
const LEFT = 64
const RIGHT = 16
const TOP = 16
const BOTTOM = 40
const SPAN_X = WIDTH - LEFT - RIGHT
const SPAN_Y = HEIGHT - TOP - BOTTOM
const BARS = 60

interface Line {
  name: string
  colour: string // class in the page's style
  points: [number, number][]
}

interface Axis {
  title: string
  ticks: [number, string][] // value, label
  /** 0 to 1. */
  place(value: number): number
}

/** Latency by percentile, on an axis that gives each further nine the same width. */
export function percentileChart(buckets: Bucket[]): string {
  const count = buckets.reduce((sum, each) => sum + each.count, 0)
  let seen = 0
  const points = buckets.map(({ fromMs, toMs, count: own }): [number, number] => {
    seen += own
    return [Math.min(nines(seen / count), Math.log10(count)), (fromMs + toMs) / 2]
  })
  const x = nineAxis(Math.max(1, Math.log10(Math.max(10, count))))
  const y = logAxis('latency, ms', values(points))
  return chart(x, y, [{ name: '', colour: 'one', points: [[0, points[0]?.[1] ?? 1], ...points] }])
}

export function rateChart(series: Point[]): string {
  const points = series.map(({ sec, ratePerSec }): [number, number] => [sec, ratePerSec])
  return chart(secAxis(series), linearAxis('decisions per second', values(points)), [
    { name: '', colour: 'one', points },
  ])
}

export function latencyChart(series: Point[]): string {
  const line = (name: string, colour: string, read: (point: Point) => number): Line => ({
    name,
    colour,
    points: series.map((point): [number, number] => [point.sec, read(point)]),
  })
  const lines = [
    line('p50', 'one', ({ p50Ms }) => p50Ms),
    line('p99', 'two', ({ p99Ms }) => p99Ms),
    line('max', 'three', ({ maxMs }) => maxMs),
  ]
  return chart(
    secAxis(series),
    logAxis(
      'latency, ms',
      lines.flatMap(({ points }) => values(points)),
    ),
    lines,
  )
}

/** Calls by latency, in bars of logarithmic width. */
export function histogramChart(buckets: Bucket[]): string {
  const low = Math.log10(Math.max(0.0001, buckets[0]?.fromMs ?? 0.1))
  const high = Math.log10(buckets.at(-1)?.toMs ?? 1)
  const step = Math.max(0.005, (high - low) / BARS)
  const bars: number[] = Array(BARS + 1).fill(0)
  for (const { fromMs, toMs, count } of buckets) {
    const place = Math.floor((Math.log10(Math.max(0.0001, (fromMs + toMs) / 2)) - low) / step)
    bars[Math.max(0, Math.min(BARS, place))] += count
  }
  const x = logAxis('latency, ms', [10 ** low, 10 ** high])
  const y = linearAxis('calls', bars)
  const rects = bars.map((count, i) => {
    const from = LEFT + SPAN_X * x.place(10 ** (low + i * step))
    const to = LEFT + SPAN_X * Math.min(1, x.place(10 ** (low + (i + 1) * step)))
    const top = TOP + SPAN_Y * (1 - y.place(count))
    const box = `x="${fixed(from)}" y="${fixed(top)}" width="${fixed(Math.max(1, to - from - 1))}"`
    return count === 0 ? '' : `<rect class="one" ${box} height="${fixed(TOP + SPAN_Y - top)}"/>`
  })
  return frame(x, y, rects.join(''))
}

function chart(x: Axis, y: Axis, lines: Line[]): string {
  const paths = lines.map(({ colour, points }) => {
    const steps = points.map(
      ([a, b]) => `${fixed(LEFT + SPAN_X * x.place(a))},${fixed(TOP + SPAN_Y * (1 - y.place(b)))}`,
    )
    return `<polyline class="${colour}" points="${steps.join(' ')}"/>`
  })
  const names = lines.map(({ name, colour }, i) => {
    return name === ''
      ? ''
      : `<text class="${colour}" x="${LEFT + 12 + i * 48}" y="${TOP + 14}">${name}</text>`
  })
  return frame(x, y, paths.join('') + names.join(''))
}

function frame(x: Axis, y: Axis, content: string): string {
  const bottom = TOP + SPAN_Y
  const below = x.ticks.map(([value, label]) => {
    const at = fixed(LEFT + SPAN_X * x.place(value))
    return `<line class="grid" x1="${at}" x2="${at}" y1="${TOP}" y2="${bottom}"/><text x="${at}" y="${bottom + 16}" text-anchor="middle">${label}</text>`
  })
  const beside = y.ticks.map(([value, label]) => {
    const at = fixed(TOP + SPAN_Y * (1 - y.place(value)))
    return `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}"/><text x="${LEFT - 6}" y="${Number(at) + 4}" text-anchor="end">${label}</text>`
  })
  const titles = `<text x="${LEFT + SPAN_X / 2}" y="${HEIGHT - 4}" text-anchor="middle">${x.title}</text><text transform="translate(12 ${TOP + SPAN_Y / 2}) rotate(-90)" text-anchor="middle">${y.title}</text>`
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${y.title} by ${x.title}">${below.join('')}${beside.join('')}${titles}${content}</svg>`
}

function secAxis(series: Point[]): Axis {
  return linearAxis('seconds', [0, ...series.map(({ sec }) => sec)])
}

/** Share 0.99 lies at 2, 0.999 at 3. */
function nines(share: number): number {
  return share >= 1 ? Number.POSITIVE_INFINITY : -Math.log10(1 - share)
}

function nineAxis(most: number): Axis {
  const shares: [number, string][] = [
    [0, '0'],
    [0.5, '50'],
    [0.9, '90'],
    [0.99, '99'],
    [0.999, '99.9'],
    [0.9999, '99.99'],
    [0.99999, '99.999'],
  ]
  const ticks = shares.map(([share, label]): [number, string] => [nines(share), label])
  return {
    title: 'share of calls, %',
    ticks: ticks.filter(([at]) => at <= most),
    place: (value) => value / most,
  }
}

function linearAxis(title: string, all: number[]): Axis {
  const most = all.reduce((a, b) => Math.max(a, b), 0) || 1
  const magnitude = 10 ** Math.floor(Math.log10(most))
  const step =
    [0.2, 0.5, 1, 2].map((factor) => factor * magnitude).find((each) => most / each <= 6) ?? magnitude * 2
  const ticks: [number, string][] = []
  for (let value = 0; value <= most; value += step)
    ticks.push([value, Number(value.toPrecision(6)).toLocaleString('en-US')])
  return { title, ticks, place: (value) => value / most }
}

function logAxis(title: string, all: number[]): Axis {
  const positive = all.filter((value) => value > 0)
  const least = Math.log10(positive.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY))
  const most = Math.log10(positive.reduce((a, b) => Math.max(a, b), 0))
  const [low, span] = positive.length === 0 ? [0, 1] : [least - 0.02, Math.max(0.05, most - least + 0.04)]
  const factors = span > 2 ? [1] : span > 0.7 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]
  const ticks: [number, string][] = []
  for (let power = Math.floor(low); power <= low + span; power++) {
    for (const factor of factors) {
      const at = power + Math.log10(factor)
      if (at >= low && at <= low + span) ticks.push([10 ** at, String(Number((10 ** at).toPrecision(3)))])
    }
  }
  const place = (value: number) => (Math.log10(Math.max(value, 10 ** low)) - low) / span
  return { title, ticks, place }
}

function values(points: [number, number][]): number[] {
  return points.map(([, value]) => value)
}

function fixed(value: number): string {
  return value.toFixed(1)
}
