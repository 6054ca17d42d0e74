/**
 * Models claimed against listed over 90 days: the number of listed models as a step line, reconstructed from its changes back
 * from now, and the number claimed now as a level.
 */
import { scaleLinear } from 'd3-scale'
import { curveStepAfter, line } from 'd3-shape'
import { DAY_SEC } from '../../scoring/bucket.ts'
import { dateTimeTag, moreTable } from '../components.ts'
import { toDate } from '../format.ts'
import { type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

const WIDTH = 300
const HEIGHT = 96
const DAYS = 90

export interface ModelCounts {
  listed: number
  claimed: number
  changes: readonly { at: string; change: 'added' | 'removed' }[]
  firstSec: number // the first measurement
}

export interface Step {
  atSec: number
  listed: number
}

/** Oldest first; the last step is now. */
export function toSteps({ listed, changes, firstSec }: ModelCounts, nowSec: number): Step[] {
  const sinceSec = Math.max(firstSec, nowSec - DAYS * DAY_SEC)
  const steps: Step[] = [{ atSec: nowSec, listed }]
  const newestFirst = changes
    .map(({ at, change }) => ({ atSec: Date.parse(at) / 1_000, change }))
    .filter(({ atSec }) => atSec >= sinceSec)
    .sort((a, b) => b.atSec - a.atSec)
  let count = listed
  for (const { atSec, change } of newestFirst) {
    if (steps[0].atSec !== atSec) steps.unshift({ atSec, listed: count })
    count += change === 'added' ? -1 : 1
  }
  if (steps[0].atSec > sinceSec) steps.unshift({ atSec: sinceSec, listed: Math.max(0, count) })
  return steps
}

export function modelsChart(page: Page, counts: ModelCounts, nowSec: number): Html {
  const { m, f } = page
  const steps = toSteps(counts, nowSec)
  const top = Math.max(1, counts.claimed, ...steps.map(({ listed }) => listed)) * 1.1
  const x = scaleLinear().domain([steps[0].atSec, nowSec]).range([0, WIDTH])
  const y = scaleLinear().domain([0, top]).range([HEIGHT, 0])
  const d = line<Step>()
    .x(({ atSec }) => round(x(atSec)))
    .y(({ listed }) => round(y(listed)))
    .curve(curveStepAfter)(steps)
  const [claimedY, listedY] = separate(round(y(counts.claimed)), round(y(counts.listed)))
  return html`<figure><div class="chart">
<svg class="plot-models" aria-hidden="true"><text class="label" x="100%" dx="-8" y="${HEIGHT}" text-anchor="end">0</text></svg>
<svg class="plot-models" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-labelledby="models-title models-text"><title id="models-title">${m.charts.modelsTitle}</title><desc id="models-text">${m.charts.modelsText(f, counts.claimed, counts.listed, toDate(steps[0].atSec))}</desc><line class="grid-line grid-base" x1="0" x2="${WIDTH}" y1="${HEIGHT}" y2="${HEIGHT}"/><line class="line line-minor line-tls" x1="0" x2="${WIDTH}" y1="${round(y(counts.claimed))}" y2="${round(y(counts.claimed))}"/><path class="line" d="${d ?? ''}"/></svg>
<svg class="plot-models" aria-hidden="true"><text class="label" x="8" y="${claimedY}">${m.site.claimed} ${f.number(counts.claimed)}</text><text class="label label-strong" x="8" y="${listedY}">${m.site.listed} ${f.number(counts.listed)}</text></svg>
<span></span><svg class="plot-axis" aria-hidden="true"><text class="label" x="0" y="14">${toDate(steps[0].atSec)}</text><text class="label" x="100%" y="14" text-anchor="end">${toDate(nowSec)}</text></svg><span></span></div>${moreTable(page, stepsTable(page, steps))}</figure>`
}

const ROWS_MAX = 100 // the newest; all changes are at /api/v1/sites/{slug}/models

/** The line as a table: each change of the number listed. */
function stepsTable({ m, f }: Page, steps: readonly Step[]): Html {
  const rows = steps.slice(0, -1).slice(-ROWS_MAX).reverse()
  return html`<table class="table table-tight"><thead><tr><th scope="col">${m.charts.from}</th><th scope="col" class="num">${m.site.listed}</th></tr></thead><tbody>${rows.map(({ atSec, listed }) => html`<tr><th scope="row">${dateTimeTag(atSec)}</th><td class="num">${f.number(listed)}</td></tr>`)}</tbody></table>`
}

/** Baselines of two labels, at least a line apart and inside the plot. */
function separate(first: number, second: number): [number, number] {
  const isFirstAbove = first <= second
  const upper = Math.min(Math.max(12, Math.min(first, second) + 4), HEIGHT - 18)
  const lower = Math.min(HEIGHT - 2, Math.max(upper + 16, Math.max(first, second) + 4))
  return isFirstAbove ? [upper, lower] : [lower, upper]
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
