/** Failures by cause, most frequent first, with bars of their share of the most frequent. */
import type { ErrorCode } from '../../facts.ts'
import type { ProbePoint } from '../../scoring/probe-point.ts'
import { type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

export function countCauses(points: readonly (ProbePoint | null)[]): [ErrorCode, number][] {
  const counts = new Map<ErrorCode, number>()
  for (const point of points) {
    for (const [code, count] of Object.entries(point?.errors ?? {}) as [ErrorCode, number][]) {
      counts.set(code, (counts.get(code) ?? 0) + count)
    }
  }
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
}

export function causesTable({ m, f }: Page, causes: readonly [ErrorCode, number][]): Html {
  const most = Math.max(1, ...causes.map(([, count]) => count))
  return html`<table class="table causes"><thead><tr><th scope="col">${m.charts.cause}</th><th scope="col" class="num">${m.charts.probes}</th><th scope="col"><span class="visually-hidden">${m.charts.share}</span></th></tr></thead><tbody>${causes.map(
    ([code, count]) =>
      html`<tr><th scope="row">${m.codes.errors[code] ?? code}<span class="sub mono">${code}</span></th><td class="num">${f.number(count)}</td><td><svg class="share-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="points-kept" y="3" width="100" height="2"/><rect class="points-lost" width="${Math.round((count / most) * 1_000) / 10}" height="8"/></svg></td></tr>`,
  )}</tbody></table>`
}
