/**
 * Availability of 30 days on the site page: the large strip with each day's causes, and below it a cell per hour on the same
 * columns, so that an outage and the gap in the latency chart stand above each other.
 *
 *              ▆▆▆▇▆▆ ▆    by day (UTC)
 *     08:00    ░░▒░░░ ░    A column is a UTC day, which begins at 08:00 in China; so rows run from 08:00 to 07:00 China
 *     14:00    ░░░░░█ ░    time, every column is in order, and the peak hours (09:00 to 23:00) are one span.
 */

import type { ProbePoint } from '../../scoring/probe-point.ts'
import { stripPaths } from '../assets/strip.js'
import { dateTimeTag, percentOr } from '../components.ts'
import { toDate } from '../format.ts'
import { type Html, html } from '../html.ts'
import type { Page } from '../page.ts'
import { DAYS, type DayGrid, dayStartSec, HOURS, hourStartSec } from './days.ts'
import { describeStrip, path } from './strip.ts'

const COLUMN = 10
const BAR = 9
const STRIP_HEIGHT = 40
const ROW = 5
const WIDTH = DAYS * COLUMN - (COLUMN - BAR)
const MANY_BELOW = 0.8 // availability of an hour
const DOWN_BELOW = 0.5
const CHINA_OFFSET_HOURS = 8
const PEAK_ROWS = { first: 1, last: 14 } // 09:00 to 23:00 China time

export interface AvailabilityFigures {
  all: number | null // 30 days
  peak: number | null
}

export function availabilityChart(
  page: Page,
  name: string,
  grid: DayGrid,
  nowSec: number,
  { all, peak }: AvailabilityFigures,
): Html {
  const { m } = page
  const days = grid.days.map((point) => point?.availability ?? null)
  const { up, lost, down, none } = stripPaths(days, { bar: BAR, step: COLUMN, height: STRIP_HEIGHT })
  const label = `${name}${m.charts.separator}${describeStrip(page, days, nowSec)}`
  const figure = (ratio: number | null | undefined) => percentOr(page, ratio)
  return html`<div class="chart time">
<span></span><svg class="strip strip-large" viewBox="0 0 ${WIDTH} ${STRIP_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}">${[path('bar-up', up), path('bar-lost', lost), path('bar-down', down), path('bar-none', none)]}${grid.days.map((point, day) => dayTitle(page, grid, point, day))}</svg>
<svg class="strip-large" aria-hidden="true"><text class="label label-strong" x="8" y="12">${m.charts.byDay}</text><text class="label" x="8" y="28">${figure(all)}</text></svg>
${hourLabels()}
<svg class="plot-hours" viewBox="0 0 ${WIDTH} ${HOURS * ROW}" preserveAspectRatio="none" role="img" aria-labelledby="hours-title hours-text"><title id="hours-title">${m.charts.hoursTitle}</title><desc id="hours-text">${m.charts.hoursText}</desc>${hourPaths(grid)}</svg>
<svg class="plot-hours" aria-hidden="true"><text class="label label-strong" x="8" y="10">${m.charts.byHour}</text><text class="label" x="8" y="26">${m.charts.chinaTime}</text><path class="bracket" d="M2 ${PEAK_ROWS.first * ROW + 0.5}h4v${(PEAK_ROWS.last - PEAK_ROWS.first + 1) * ROW - 1}h-4"/><text class="label" x="12" y="52">${m.charts.peak}</text><text class="label" x="12" y="68">${figure(peak)}</text></svg></div>`
}

/** The day's figure and causes, on hover; the same stands in the table. */
function dayTitle(page: Page, grid: DayGrid, point: ProbePoint | null, day: number): Html {
  const text = point === null ? page.m.site.notMeasured : page.f.percent(point.availability)
  const causes = point === null ? '' : describeCauses(page, point)
  return html`<rect class="hit" x="${day * COLUMN}" width="${BAR}" height="${STRIP_HEIGHT}"><title>${toDate(dayStartSec(grid, day))}: ${text}${causes}</title></rect>`
}

export function describeCauses({ m, f }: Page, { errors }: ProbePoint): string {
  const causes = Object.entries(errors) as [keyof typeof errors, number][]
  return causes
    .sort(([, a], [, b]) => b - a)
    .map(([code, count]) => `\n${m.codes.errors[code] ?? code}: ${f.number(count)}`)
    .join('')
}

function hourLabels(): Html {
  const label = (row: number) => {
    const hour = String((row + CHINA_OFFSET_HOURS) % HOURS).padStart(2, '0')
    return html`<text class="label" x="100%" dx="-8" y="${row * ROW + 9}" text-anchor="end">${hour}<tspan class="not-small">:00</tspan></text>`
  }
  return html`<svg class="plot-hours" aria-hidden="true">${[0, 6, 12, 18].map(label)}</svg>`
}

/** A cell per hour. The height of the lost part has three steps, so that hours differ without colour. */
const LOST_HEIGHTS = { some: 2, many: 3.5, down: ROW }

function hourPaths({ hours }: DayGrid): (Html | false)[] {
  const paths = { measured: '', some: '', many: '', down: '' }
  hours.forEach((day, column) => {
    const x = column * COLUMN
    for (let row = 0; row < HOURS; ) {
      const start = row
      while (row < HOURS && day[row] !== null) row++
      if (row > start) paths.measured += `M${x} ${start * ROW}h${BAR}v${(row - start) * ROW}h-${BAR}z`
      row++
    }
    day.forEach((point, row) => {
      const kind = point === null ? 'none' : toLossKind(point.availability)
      if (kind === 'none') return
      const height = LOST_HEIGHTS[kind]
      paths[kind] += `M${x} ${(row + 1) * ROW}h${BAR}v-${height}h-${BAR}z`
    })
  })
  return [
    path('bar-up hour-up', paths.measured),
    path('bar-lost', paths.some),
    path('bar-lost', paths.many),
    path('bar-down', paths.down),
  ]
}

function toLossKind(availability: number): 'none' | 'some' | 'many' | 'down' {
  if (availability === 1) return 'none'
  if (availability >= MANY_BELOW) return 'some'
  return availability >= DOWN_BELOW ? 'many' : 'down'
}

const HOURS_SHOWN_MAX = 200 // all hours are at /api/v1/sites/{slug}/history

/** The chart by hour as a table: hours with a failed or degraded probe. The others are available or, per day, not measured. */
export function hoursBelowTable(page: Page, grid: DayGrid): Html | null {
  const { m, f } = page
  const rows = grid.hours
    .flatMap((hours, day) => hours.map((point, hour) => ({ point, day, hour })))
    .flatMap(({ point, day, hour }) =>
      point === null || point.availability === 1 ? [] : [{ point, atSec: hourStartSec(grid, day, hour) }],
    )
    .slice(-HOURS_SHOWN_MAX)
    .reverse()
  if (rows.length === 0) return null
  return html`<table class="table table-tight"><caption>${m.charts.hoursBelow}</caption><thead><tr><th scope="col">${m.charts.hour}</th><th scope="col" class="num">${m.site.availability}</th><th scope="col" class="num">${m.charts.probes}</th><th scope="col">${m.charts.causes}</th></tr></thead><tbody>${rows.map(
    ({ point, atSec }) =>
      html`<tr><th scope="row">${dateTimeTag(atSec)}</th><td class="num">${f.percent(point.availability)}</td><td class="num">${f.number(point.probes)}</td><td>${listCauses(page, point)}</td></tr>`,
  )}</tbody></table>`
}

function listCauses(page: Page, point: ProbePoint): string {
  return describeCauses(page, point).trim().replaceAll('\n', page.m.charts.separator)
}

/** The same figures as a table: a row per day. */
export function availabilityTable(page: Page, grid: DayGrid): Html {
  const { m, f } = page
  return html`<table class="table table-tight"><thead><tr><th scope="col">${m.charts.day}</th><th scope="col" class="num">${m.site.availability}</th><th scope="col" class="num">${m.charts.probes}</th><th scope="col">${m.charts.causes}</th></tr></thead><tbody>${grid.days.map(
    (point, day) =>
      html`<tr><th scope="row">${toDate(dayStartSec(grid, day))}</th>${
        point === null
          ? html`<td class="num muted" colspan="3">${m.site.notMeasured}</td>`
          : html`<td class="num">${f.percent(point.availability)}</td><td class="num">${f.number(point.probes)}</td><td>${listCauses(page, point)}</td>`
      }</tr>`,
  )}</tbody></table>`
}
