/**
 * The 30-day strip: a bar per day, and on its foot what was lost.
 *
 *     ▆▆▆▆▇ · ▆    height of the loss: the square root of the lost share, so that 0.5 % is visible and 30 % is half
 *     ▁▁  ▁ · ▄    under 50 % available: one red bar          not measured: a dot, never a bar
 *
 * One path per kind keeps a row under 1 KB.
 */
import { bucketStartSec, DAY_SEC } from '../../scoring/bucket.ts'
import { BAR, HEIGHT, STEP, stripPaths } from '../assets/strip.js'
import { toDate } from '../format.ts'
import { type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

/** `endSec`: any time of the last day. `name`: of the site, for readers of the screen. */
export function strip(page: Page, name: string, days: readonly (number | null)[], endSec: number): Html {
  const { up, lost, down, none } = stripPaths(days)
  const text = describeStrip(page, days, endSec)
  return html`<svg class="strip" viewBox="0 0 ${days.length * STEP - (STEP - BAR)} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${name}${page.m.charts.separator}${text}"><title>${text}</title>${[
    path('bar-up', up),
    path('bar-lost', lost),
    path('bar-down', down),
    path('bar-none', none),
  ]}</svg>`
}

export function describeStrip({ m, f }: Page, days: readonly (number | null)[], endSec: number): string {
  const measured = days.filter((each) => each !== null)
  if (measured.length === 0) return m.site.noStrip
  const lowest = Math.min(...measured)
  const day = days.indexOf(lowest)
  const atSec = bucketStartSec(endSec, DAY_SEC) - (days.length - 1 - day) * DAY_SEC
  return m.site.strip(measured.length, f.percent(lowest), toDate(atSec))
}

export function path(kind: string, d: string): Html | false {
  return d !== '' && html`<path class="${kind}" d="${d}"/>`
}

export function stripKey({ m }: Page): Html {
  const bar = (shape: Html) => html`<svg aria-hidden="true" viewBox="0 0 6 16">${shape}</svg>`
  return html`<ul class="key" role="list" aria-label="${m.list.key}"><li>${bar(html`<rect class="bar-up" width="6" height="16"/>`)}${m.list.keyUp}</li><li>${bar(html`<rect class="bar-up" width="6" height="8"/><rect class="bar-lost" y="9" width="6" height="7"/>`)}${m.list.keyLost}</li><li>${bar(html`<rect class="bar-down" width="6" height="16"/>`)}${m.list.keyDown}</li><li>${bar(html`<rect class="bar-none" x="2" y="14" width="2" height="2"/>`)}${m.list.keyNone}</li></ul>`
}
