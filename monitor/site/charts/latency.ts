/**
 * Latency by phase over 30 days: daily medians on a log scale; around the first byte a band from the lowest to the highest
 * hourly median. Lines break where nothing was measured; the span is sunken. Labels stand at the ends of the lines.
 *
 * Plots stretch in x only (no aspect ratio, lines that do not scale); text is in neighbouring SVGs and never scales.
 */
import { scaleLog } from 'd3-scale'
import { area, line } from 'd3-shape'
import { toDate } from '../format.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'
import { DAYS, type DayGrid, dayStartSec } from './days.ts'

const HEIGHT = 200
const WIDTH = 300
const DAY_WIDTH = WIDTH / DAYS
const LABEL_GAP = 15 // between baselines of labels at the line ends
const LABEL_FIRST_Y = 12
const X_LABELS = [0, 7, 14, 21, 28]

export const CHART_PHASES = ['dns', 'connect', 'tls', 'ttfb'] as const
type Phase = (typeof CHART_PHASES)[number]

export function latencyChart(page: Page, grid: DayGrid): Html {
  const { m } = page
  const values = [...grid.days, ...grid.hours.flat()].flatMap((point) =>
    point === null ? [] : CHART_PHASES.flatMap((phase) => point.latency_ms[phase] ?? []),
  )
  if (values.length === 0) return html`<p class="muted">${m.charts.noLatency}</p>`
  const scale = scaleLog()
    .domain([Math.max(1, Math.min(...values) / 1.5), Math.max(10, ...values) * 1.5])
    .range([HEIGHT, 0])
  const y = (ms: number) => scale(Math.max(1, ms))
  const ticks = [1, 10, 100, 1_000, 10_000, 100_000].filter((ms) => y(ms) > 8 && y(ms) < HEIGHT - 4)
  return html`<figure><div class="chart">
<svg class="plot-latency" aria-hidden="true">${ticks.map((ms) => html`<text class="label" x="100%" dx="-8" y="${round(y(ms) + 4)}" text-anchor="end">${page.f.number(ms)}</text>`)}</svg>
<svg class="plot-latency" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-labelledby="latency-title latency-text"><title id="latency-title">${m.charts.latencyTitle}</title><desc id="latency-text">${describe(page, grid)}</desc>${[
    gaps(grid),
    ticks.map(
      (ms) => html`<line class="grid-line" x1="0" x2="${WIDTH}" y1="${round(y(ms))}" y2="${round(y(ms))}"/>`,
    ),
    html`<line class="grid-line grid-base" x1="0" x2="${WIDTH}" y1="${HEIGHT}" y2="${HEIGHT}"/>`,
    band(grid, y),
    CHART_PHASES.map((phase) => phaseLine(grid, phase, y)),
  ]}</svg>
<svg class="plot-latency" aria-hidden="true">${endLabels(page, grid, y)}</svg>
<span></span><svg class="plot-axis" aria-hidden="true">${X_LABELS.map((day, i) => html`<text class="label${i % 2 === 1 && ' tick-extra'}" x="${round(((day + 0.5) / DAYS) * 100)}%" y="14" text-anchor="middle">${toDate(dayStartSec(grid, day)).slice(5)}</text>`)}</svg><svg class="plot-axis" aria-hidden="true"><text class="label" x="8" y="14">${m.charts.lastDay}</text></svg></div></figure>`
}

type Y = (ms: number) => number

function phaseLine({ days }: DayGrid, phase: Phase, y: Y): Content {
  const kind = phase === 'ttfb' ? 'line' : `line line-minor line-${phase}`
  const draw = line<number | null>()
    .defined((ms) => ms !== null)
    .x((_, day) => center(day))
    .y((ms) => round(y(ms!)))
  const d = draw(days.map((point) => point?.latency_ms[phase] ?? null))
  return d !== null && html`<path class="${kind}" d="${d}"/>`
}

function band({ hours }: DayGrid, y: Y): Content {
  const spans = hours.map((day) => {
    const values = day.flatMap((point) => point?.latency_ms.ttfb ?? [])
    return values.length === 0 ? null : { low: Math.min(...values), high: Math.max(...values) }
  })
  const draw = area<(typeof spans)[number]>()
    .defined((span) => span !== null)
    .x((_, day) => center(day))
    .y0((span) => round(y(span!.low)))
    .y1((span) => round(y(span!.high)))
  const d = draw(spans)
  return d !== null && html`<path class="band" d="${d}"/>`
}

/** Runs of days without a first byte. */
function gaps({ days }: DayGrid): Html[] {
  const rects: Html[] = []
  let day = 0
  while (day < DAYS) {
    const start = day
    while (day < DAYS && days[day]?.latency_ms.ttfb == null) day++
    if (day > start)
      rects.push(
        html`<rect class="gap-area" x="${start * DAY_WIDTH}" width="${(day - start) * DAY_WIDTH}" y="0" height="${HEIGHT}"/>`,
      )
    day++
  }
  return rects
}

/** Each at the last value of its line, moved apart where they would touch. */
function endLabels(page: Page, { days }: DayGrid, y: Y): Html[] {
  const ends = CHART_PHASES.flatMap((phase) => {
    const ms = days.findLast((point) => point?.latency_ms[phase] != null)?.latency_ms[phase]
    return ms == null ? [] : [{ phase, ms, at: y(ms) + 4 }]
  }).sort((a, b) => a.at - b.at)
  let previous = LABEL_FIRST_Y - LABEL_GAP
  for (const end of ends) {
    end.at = Math.max(end.at, previous + LABEL_GAP)
    previous = end.at
  }
  let below = HEIGHT + LABEL_GAP
  for (const end of ends.toReversed()) {
    end.at = Math.min(end.at, below - LABEL_GAP)
    below = end.at
  }
  return ends.map(
    ({ phase, ms, at }) =>
      html`<text class="label${phase === 'ttfb' && ' label-strong'}" x="8" y="${round(at)}">${page.m.charts.phases[phase]}<tspan class="not-small"> ${page.f.number(ms)} ms</tspan></text>`,
  )
}

function describe({ m, f }: Page, { days }: DayGrid): string {
  const known = days.flatMap((point) => point?.latency_ms.ttfb ?? [])
  return known.length === 0
    ? m.charts.noLatency
    : m.charts.latencyText(f, known[0], known.at(-1)!, DAYS - known.length)
}

export function latencyTable(page: Page, grid: DayGrid): Html {
  const { m, f } = page
  return html`<table class="table table-tight"><thead><tr><th scope="col">${m.charts.day}</th>${CHART_PHASES.map((phase) => html`<th scope="col" class="num">${m.charts.phases[phase]}</th>`)}</tr></thead><tbody>${grid.days.map(
    (point, day) =>
      html`<tr><th scope="row">${toDate(dayStartSec(grid, day))}</th>${CHART_PHASES.map((phase) => {
        const ms = point?.latency_ms[phase]
        return html`<td class="num">${ms == null ? '–' : f.number(ms)}</td>`
      })}</tr>`,
  )}</tbody></table>`
}

/** Hourly medians of the first byte of seven days, without axes; the figures stand beside it. */
export function sparkline({ hours }: DayGrid): Html | false {
  const values = hours.slice(-7).flatMap((day) => day.map((point) => point?.latency_ms.ttfb ?? null))
  const known = values.filter((ms) => ms !== null)
  if (known.length < 2) return false
  const scale = scaleLog()
    .domain([Math.max(1, Math.min(...known)) / 1.1, Math.max(...known) * 1.1])
    .range([20, 2])
  const d = line<number | null>()
    .defined((ms) => ms !== null)
    .x((_, hour) => hour)
    .y((ms) => round(scale(Math.max(1, ms!))))(values)
  return (
    d !== null &&
    html`<svg class="spark" viewBox="0 0 ${values.length} 22" preserveAspectRatio="none" aria-hidden="true"><path class="line line-minor" d="${d}"/></svg>`
  )
}

function center(day: number): number {
  return (day + 0.5) * DAY_WIDTH
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
