/**
 * Charts over time as one SVG file: panels with a common time axis, and spans (faults) marked through all of them. The file has its own
 * style for light and dark, so that it can be shown by `<img>`, and a title and a description for readers who do not see it.
 *
 *     title
 *     ┌───── A ─────── B ──┐
 *     │ panel 1            │ ▬ name of a series
 *     ├────────────────────┤
 *     │ panel 2            │ ▬ …
 *     └────────────────────┘
 *      0      1      2   min
 *     A name of a span   B …
 */
import { scaleLinear, scaleLog } from 'd3-scale'
import { area, line } from 'd3-shape'

const WIDTH = 960
const LEFT = 66
const RIGHT = 176 // names of the series
const PLOT_WIDTH = WIDTH - LEFT - RIGHT
const TOP = 64
const PANEL_HEIGHT = 110
const GAP = 34 // between panels: the title of the next
const AXIS_HEIGHT = 40
const LINE_HEIGHT = 18
const BUCKETS = PLOT_WIDTH / 2 // of a series; a point for every other pixel
const LEGEND_COLUMNS = 4
const LABEL_WIDTH_MIN = 14 // spans that are closer together have no letters

/** Colours that differ in lightness too; [light, dark] theme, each at least 3:1 on its paper. */
export const TONES = {
  blue: ['#0b62c4', '#6cb0ff'],
  orange: ['#b45309', '#ffb057'],
  green: ['#187a3c', '#5fd38d'],
  purple: ['#7c3aed', '#c3a6ff'],
  red: ['#c01c28', '#ff7b72'],
  teal: ['#0e7490', '#4fd1e0'],
  grey: ['#5b6573', '#9aa7b5'],
} as const
export type Tone = keyof typeof TONES

/** `values`: [second, value] in order of time; null = unknown, which interrupts the line. */
export interface Series {
  name: string
  tone: Tone
  values: readonly (readonly [sec: number, value: number | null])[]
  isDashed?: boolean
}

/** A `stack` needs values at the same seconds in all series, the first at the bottom. */
export interface Panel {
  title: string // with its unit
  kind: 'lines' | 'stack'
  scale: 'linear' | 'log'
  /** What stands for values that are too close to be drawn apart. */
  reduce: 'mean' | 'max'
  series: readonly Series[]
}

export interface Span {
  name: string // equal names have one letter
  fromSec: number
  toSec: number
}

export interface TimeChart {
  title: string
  description: string // what the picture shows, with its main figures
  seconds: number
  spans: readonly Span[]
  panels: readonly Panel[]
}

export function drawTimeChart({ title, description, seconds, spans, panels }: TimeChart): string {
  const names = [...new Set(spans.map(({ name }) => name))]
  const legendLines = Math.ceil(names.length / LEGEND_COLUMNS)
  const plotsEnd = TOP + panels.length * (PANEL_HEIGHT + GAP) - GAP
  const height = plotsEnd + AXIS_HEIGHT + legendLines * LINE_HEIGHT + 8
  const x = scaleLinear([0, seconds], [LEFT, LEFT + PLOT_WIDTH])
  const parts = [
    `<rect class="paper" width="${WIDTH}" height="${height}"/>`,
    text(16, 24, title, 'head'),
    ...drawSpans(spans, names, x, plotsEnd),
    ...panels.map((panel, i) => drawPanel(panel, TOP + i * (PANEL_HEIGHT + GAP), x, seconds)),
    ...drawTimeAxis(seconds, x, plotsEnd),
    ...names.map((name, i) => {
      const column = LEFT + (i % LEGEND_COLUMNS) * ((WIDTH - LEFT) / LEGEND_COLUMNS)
      const y = plotsEnd + AXIS_HEIGHT + 8 + Math.floor(i / LEGEND_COLUMNS) * LINE_HEIGHT
      return text(column, y, `${toLetter(i)}  ${name}`)
    }),
  ]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title description">
<title id="title">${escapeXml(title)}</title>
<desc id="description">${escapeXml(description)}</desc>
<style>${STYLE}</style>
${parts.join('\n')}
</svg>
`
}

type Scale = (value: number) => number

function drawSpans(spans: readonly Span[], names: readonly string[], x: Scale, bottom: number): string[] {
  let labelledTo = 0
  return spans.map(({ name, fromSec, toSec }) => {
    const [from, to] = [x(fromSec), Math.max(x(toSec), x(fromSec) + 1)]
    const middle = (from + to) / 2
    const isLabelled = middle - labelledTo >= LABEL_WIDTH_MIN
    if (isLabelled) labelledTo = middle
    const box = `<rect class="span" x="${fixed(from)}" y="${TOP - 4}" width="${fixed(to - from)}" height="${bottom - TOP + 4}"/>`
    return isLabelled ? box + text(middle, TOP - 24, toLetter(names.indexOf(name)), 'middle') : box
  })
}

function drawPanel(
  { title, kind, scale, reduce, series }: Panel,
  top: number,
  x: Scale,
  seconds: number,
): string {
  const reduced = series.map(({ values }) => reduceValues(values, seconds, reduce))
  const layers = kind === 'stack' ? stack(reduced) : reduced.map((values) => values.map(toSpan))
  const { y, ticks } = createScale(scale, layers.flat(), top)
  const grid = ticks.map(
    ([value, label]) =>
      `<path class="grid" d="M${LEFT},${fixed(y(value))}h${PLOT_WIDTH}"/>${text(LEFT - 6, y(value) + 4, label, 'end')}`,
  )
  const drawn = layers.map((values, i) => {
    const { tone, isDashed } = series[i]
    if (kind === 'stack') {
      const draw = area<Point>()
        .x(([sec]) => x(sec))
        .y0(([, low]) => y(low ?? 0))
        .y1(([, , high]) => y(high ?? 0))
        .digits(1)
      return `<path class="fill ${tone}" d="${draw(values)}"/>`
    }
    const draw = line<Point>()
      .defined(([, , high]) => high !== null)
      .x(([sec]) => x(sec))
      .y(([, , high]) => y(high ?? 0))
      .digits(1)
    return `<path class="line ${tone}${isDashed ? ' dashed' : ''}" d="${draw(values) ?? ''}"/>`
  })
  const legend = series.map(({ name, tone, isDashed }, i) => {
    const at = top + 12 + (kind === 'stack' ? series.length - 1 - i : i) * LINE_HEIGHT // as they lie in the stack
    const sample = `M${LEFT + PLOT_WIDTH + 10},${at - 4}h14`
    return `<path class="${kind === 'stack' ? 'block' : 'line'} ${tone}${isDashed ? ' dashed' : ''}" d="${sample}"/>${text(LEFT + PLOT_WIDTH + 30, at, name)}`
  })
  return [text(LEFT, top - 8, title, 'name'), ...grid, ...drawn, ...legend].join('\n')
}

type Point = readonly [sec: number, low: number | null, high: number | null]

const toSpan = ([sec, value]: readonly [number, number | null]): Point => [sec, 0, value]

/** One value per bucket of time that has any. */
function reduceValues(
  values: Series['values'],
  seconds: number,
  reduce: Panel['reduce'],
): [number, number | null][] {
  const width = seconds / BUCKETS
  const buckets = Map.groupBy(values, ([sec]) => Math.floor(sec / width))
  return [...buckets].map(([bucket, all]) => {
    const known = all.flatMap(([, value]) => value ?? [])
    const middle = all.length === 1 ? all[0][0] : (bucket + 0.5) * width
    if (known.length === 0) return [middle, null]
    if (reduce === 'max') return [middle, Math.max(...known)]
    return [middle, known.reduce((sum, value) => sum + value, 0) / known.length]
  })
}

function stack(all: [number, number | null][][]): Point[][] {
  const tops = (all[0] ?? []).map(() => 0)
  return all.map((values) =>
    values.map(([sec, value], i): Point => {
      const low = tops[i]
      tops[i] += value ?? 0
      return [sec, low, tops[i]]
    }),
  )
}

function createScale(kind: Panel['scale'], points: readonly Point[], top: number) {
  const values = points.flatMap(([, , high]) => high ?? [])
  const most = values.reduce((a, b) => Math.max(a, b), 0) || 1
  const range = [top + PANEL_HEIGHT, top]
  if (kind === 'linear') {
    const y = scaleLinear([0, most], range).nice(4)
    return {
      y: (value: number) => y(value),
      ticks: y.ticks(4).map((value) => [value, value.toLocaleString('en-US')] as const),
    }
  }
  const positive = values.filter((value) => value > 0)
  const low = 10 ** Math.floor(Math.log10(positive.reduce((a, b) => Math.min(a, b), most)))
  const high = Math.max(10 * low, 10 ** Math.ceil(Math.log10(most)))
  const y = scaleLog([low, high], range)
  const decades = Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (_, i) => low * 10 ** i)
  const ticks = decades.map((value) => [value, Number(value.toPrecision(6)).toLocaleString('en-US')] as const)
  return { y: (value: number) => y(Math.max(value, low)), ticks }
}

function drawTimeAxis(seconds: number, x: Scale, bottom: number): string[] {
  const [unitSec, unit] = seconds >= 180 ? [60, 'min'] : [1, 's']
  const ticks = scaleLinear([0, seconds / unitSec], [0, 1]).ticks(10)
  return ticks.map((value, i) => {
    const at = x(value * unitSec)
    const label = i === ticks.length - 1 ? `${value} ${unit}` : String(value)
    return `<path class="grid" d="M${fixed(at)},${bottom}v5"/>${text(at, bottom + 20, label, 'middle')}`
  })
}

/** A to Z, AA … */
function toLetter(index: number): string {
  return (index >= 26 ? toLetter(Math.floor(index / 26) - 1) : '') + String.fromCharCode(65 + (index % 26))
}

function text(x: number, y: number, content: string, kind = ''): string {
  return `<text${kind === '' ? '' : ` class="${kind}"`} x="${fixed(x)}" y="${fixed(y)}">${escapeXml(content)}</text>`
}

function fixed(value: number): string {
  return String(Number(value.toFixed(1)))
}

function escapeXml(content: string): string {
  return content.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function themeStyle(index: 0 | 1, paper: string, ink: string, grid: string, span: string): string {
  const tones = Object.entries(TONES).map(([name, colours]) => {
    const colour = colours[index]
    return `.line.${name},.block.${name}{stroke:${colour}}.fill.${name}{fill:${colour}}`
  })
  return `.paper{fill:${paper}}text{fill:${ink}}.grid{stroke:${grid}}.span{fill:${span}}${tones.join('')}`
}

const STYLE = `text{font:12px system-ui,sans-serif}.head{font-size:16px;font-weight:600}.name{font-weight:600}.middle{text-anchor:middle}.end{text-anchor:end}
.line{fill:none;stroke-width:1.5;stroke-linejoin:round}.dashed{stroke-dasharray:5 3}.block{stroke-width:10}.fill{opacity:.85}.grid{fill:none;stroke-width:1}
${themeStyle(0, '#ffffff', '#1c2430', '#dfe4ea', '#f6dcc4')}
@media (prefers-color-scheme:dark){${themeStyle(1, '#0d1117', '#dde4ec', '#2c343f', '#4a3320')}}`
