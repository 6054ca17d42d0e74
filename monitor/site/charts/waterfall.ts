/**
 * The score from 100 points down: a bar per component at its place on the scale of tiers, whose borders are dotted through
 * all rows. An unknown component is a dashed line; the weights of the others are shown as they count, scaled up to 100.
 */

import type { Component } from '../../scoring/score.ts'
import { BORDERS } from '../../scoring/tier.ts'
import { percentOr } from '../components.ts'
import { type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

const WIDTH = 100
const HEIGHT = 18

interface Row {
  component: Component
  max: number // points, scaled
  points: number | null
  from: number // where the bar ends on the left: the points left after this component
}

export function toRows(components: readonly Component[]): Row[] {
  const known = components.reduce((sum, { value, weight }) => sum + (value === null ? 0 : weight), 0)
  let left = WIDTH
  return components.map((component) => {
    const { value, weight } = component
    const max = known === 0 ? 0 : (weight / known) * WIDTH
    if (value === null) return { component, max, points: null, from: left }
    left -= max * (1 - value)
    return { component, max, points: max * value, from: left }
  })
}

/** `isListUnread`: models are claimed, but the site's own list was not read. */
export function waterfall(
  page: Page,
  components: readonly Component[],
  score: number,
  isListUnread: boolean,
): Html {
  const { m, f } = page
  return html`<table class="waterfall"><caption class="visually-hidden">${m.charts.waterfall}</caption><thead><tr><th scope="col">${m.charts.component}</th><th scope="col" class="num col-points">${m.charts.points}</th><th scope="col" class="col-bar"><span class="visually-hidden">${m.charts.lostOnScale}</span>${axis()}</th><th scope="col" class="num">${m.charts.lost}</th></tr></thead><tbody>${toRows(
    components,
  ).map(({ component, max, points, from }) =>
    points === null
      ? html`<tr><th scope="row">${m.codes.components[component.key]}<span class="sub">${component.key === 'models' && isListUnread ? m.charts.listUnread : m.charts.notCounted}</span></th><td class="num col-points muted">–</td><td class="col-bar">${bar(html`<line class="points-none" x1="0" x2="${round(from)}" y1="9" y2="9"/>`)}</td><td class="num muted">–</td></tr>`
      : html`<tr><th scope="row">${m.codes.components[component.key]}<span class="sub">${describeInputs(page, component)}</span></th><td class="num col-points">${f.decimal(points)} <span class="unit">/ ${f.decimal(max)}</span></td><td class="col-bar">${bar(html`<rect class="points-kept" x="0" y="8" width="${round(from)}" height="2"/>${max - points >= 0.05 && html`<rect class="points-lost" x="${round(from)}" y="2" width="${round(max - points)}" height="14"/>`}`)}</td><td class="num">${max - points < 0.05 ? f.decimal(0) : `−${f.decimal(max - points)}`}</td></tr>`,
  )}</tbody><tfoot><tr><th scope="row">${m.charts.score}</th><td class="num col-points"></td><td class="col-bar">${bar(html`<rect class="points-score" x="0" y="2" width="${round(score)}" height="14"/>`)}</td><td class="num">${f.decimal(score)}</td></tr></tfoot></table>`
}

function describeInputs(page: Page, { key, inputs }: Component): string {
  const { m, f } = page
  const percent = (ratio: number | null | undefined) => percentOr(page, ratio)
  const ms = (value: number | null) => (value === null ? m.site.notMeasured : `${f.number(value)} ms`)
  if (key === 'availability')
    return m.charts.inputs.availability(percent(inputs.a24h), percent(inputs.a7d), percent(inputs.a30d))
  if (key === 'models') return m.charts.inputs.models(f.share(inputs.truthRatio ?? 0))
  if (key === 'latency') return m.charts.inputs.latency(ms(inputs.p50Ms), ms(inputs.p95Ms))
  if (key === 'reachability') return m.charts.inputs.reachability(f.share(inputs.reachability ?? 0))
  return m.charts.inputs.hygiene
}

function bar(content: Html): Html {
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${BORDERS.map((border) => html`<line class="tick" x1="${border}" x2="${border}" y1="0" y2="${HEIGHT}"/>`)}${content}</svg>`
}

/** The letter of each tier in the middle of its span. */
function axis(): Html {
  const edges = [WIDTH, ...BORDERS, 0]
  const letters = ['S', 'A', 'B', 'C', 'D'].map((tier, i) => ({ tier, at: (edges[i] + edges[i + 1]) / 2 }))
  return html`<svg class="axis" aria-hidden="true">${letters.map(({ tier, at }) => html`<text class="label" x="${at}%" y="12" text-anchor="middle">${tier}</text>`)}</svg>`
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
