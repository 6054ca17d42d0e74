/**
 * The pictures of docs/pictures: what users saw during an outage, as small multiples with the same scales.
 *
 *     ┌ local ──────┐ ┌ allow ──────┐ ┌ deny ───────┐     answers by kind, requests per second, stacked
 *     │▇▇▇▒▒▒▒▒▒▇▇▇▇│ │             │ │             │
 *     │___/\________│ │             │ │             │     p99, ms, with the timeout of Envoy
 *     └─────────────┘ └─────────────┘ └─────────────┘
 *     ┌ error ──────┐ ┌ envoyproxy ─┐   legend
 *
 * Each panel is one run, the median of its row by failed requests. A picture brings its own background, since `prefers-color-scheme` is
 * that of the browser, which may differ from the page's.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ScaleLinear, scaleLinear } from 'd3-scale'
import { area, curveStepAfter, line, stack } from 'd3-shape'
import { KINDS, type Kind, POLICIES, REFERENCE, TIMEOUT_MS } from './envoy-outage-run.ts'
import { type Row, type Run, STEP_MS, type Step } from './envoy-outage-series.ts'

const WIDTH = 960
const MARGIN = 24
const HEAD = 76
const COLUMNS = 3
const GAP = 20
const AXIS = 40 // left of the first column
const PANEL = (WIDTH - 2 * MARGIN - AXIS - (COLUMNS - 1) * GAP) / COLUMNS
const PANEL_HEAD = 42
const ANSWERS = 104
const BETWEEN = 12
const LATENCY = 56
const PANEL_FOOT = 34
const ROW = PANEL_HEAD + ANSWERS + BETWEEN + LATENCY + PANEL_FOOT
const HEIGHT = HEAD + 2 * ROW
const P99_MS_MAX = 30 // of the scale; more is drawn at its top

const ORDER = [...POLICIES.slice(0, 3), 'error', REFERENCE] as const

/** What envoyproxy/ratelimit does without memcached (docs/spec/decision-service.md, section 4.3): its answers are no counts. */
const WITHOUT_MEMCACHED = 'at its defaults: count 0, all pass while it is away'

const SUBTITLES: Record<Row['service'], string> = {
  local: 'on_store_error: local',
  allow: 'on_store_error: allow',
  deny: 'on_store_error: deny',
  error: 'on_store_error: error (the default)',
  [REFERENCE]: 'at its defaults',
}

const NAMES: Record<Kind, string> = {
  counted: '200, by a count in the store',
  degraded: '200, by the policy',
  denied: '429, by the policy',
  refused: '429, by a count in the store',
  failed: '500, the check failed',
}

const FAULT_NAMES = { kill: 'is killed and started again after', stop: 'stops replying for' }

/** Okabe and Ito's colours, which people with any colour vision tell apart, darker or lighter by theme. */
const STYLE = `
    .page { fill: #ffffff } .ink { fill: #1f2328 } .dim { fill: #59636e } .grid { stroke: #d1d9e0 } .band { fill: #8c959f; opacity: .2 }
    .counted { fill: #7fb3d5 } .degraded { fill: #e69f00 } .denied { fill: #9a6fb0 } .refused { fill: #c9b1d6 } .failed { fill: #c8321e }
    .edge { stroke: #1f2328; stroke-width: 1 } .p99 { stroke: #1f2328 } .timeout { stroke: #c8321e } .bad { fill: #b42318 }
    text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
    .h1 { font-size: 17px; font-weight: 600 } .h2 { font-size: 14px; font-weight: 600 } .small { font-size: 11px }
    .grid, .p99, .timeout { fill: none } .p99 { stroke-width: 1.5 } .timeout { stroke-dasharray: 4 3 }
    .start { text-anchor: start } .middle { text-anchor: middle } .end { text-anchor: end }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 } .ink { fill: #f0f6fc } .dim { fill: #9198a1 } .grid { stroke: #30363d } .band { fill: #9198a1 }
      .counted { fill: #3f7ea6 } .degraded { fill: #e0a22e } .denied { fill: #a884c0 } .refused { fill: #6d5480 } .failed { fill: #f0533d }
      .edge { stroke: #f0f6fc } .p99 { stroke: #f0f6fc } .timeout { stroke: #f0533d } .bad { fill: #ff7b6b }
    }`

/** Writes `outage-<store>-<fault>.svg` for each store and fault of the rows. */
export function drawOutage(rows: readonly Row[], folder: string): void {
  mkdirSync(folder, { recursive: true })
  const drawable = rows.filter(({ runs }) => runs.length > 0)
  for (const [name, own] of Map.groupBy(drawable, ({ store, fault }) => `outage-${store}-${fault}`))
    writeFileSync(join(folder, `${name}.svg`), drawPicture(own))
}

export function drawPicture(rows: readonly Row[]): string {
  const [{ store, fault, ratePerSec, runs }] = rows
  const storeName = store === 'redis' ? 'Redis' : store
  const seconds = Math.round(runs[0].faultMs / 1_000)
  const title = `${storeName} ${FAULT_NAMES[fault]} ${seconds} s: what users behind Envoy get`
  const subtitle = `${ratePerSec.toLocaleString('en-US')} requests per second; rate limit filter with timeout: ${TIMEOUT_MS / 1_000}s and failure_mode_deny: true; steps of ${STEP_MS / 1_000} s`
  const shown = ORDER.flatMap((service) => rows.filter((row) => row.service === service))
  const panels = shown.map((row, index) => drawPanel(row, index, `${storeName} is away`))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-labelledby="title description">
  <title id="title">${title}</title>
  <desc id="description">${subtitle}. ${shown.map(describe).join(' ')}</desc>
  <style>${STYLE}
  </style>
  <rect class="page" width="${WIDTH}" height="${HEIGHT}" rx="8"/>
  <text class="h1 ink" x="${MARGIN}" y="34">${title}</text>
  <text class="dim" x="${MARGIN}" y="55">${subtitle}</text>
${panels.join('\n')}
${drawLegend(shown, `${storeName} is away`)}
</svg>
`
}

/** The run of the row with the median of failed requests. */
function pickRun({ runs }: Row): Run {
  const sorted = runs.toSorted(
    (a, b) => a.figures.failed - b.figures.failed || a.figures.slowestMs - b.figures.slowestMs,
  )
  return sorted[Math.floor(sorted.length / 2)]
}

const whole = (value: number) => Math.round(value).toLocaleString('en-US')

/** For readers who do not see the picture. */
function describe(row: Row): string {
  const { figures } = pickRun(row)
  const kinds = [
    `${whole(figures.counted)} passed by a count`,
    `${whole(figures.degraded)} passed by the policy`,
    `${whole(figures.refused)} refused`,
    `${whole(figures.failed)} failed`,
  ]
  return `${row.service}: of ${whole(figures.requests)} requests ${kinds.join(', ')}.`
}

interface Frame {
  x: ScaleLinear<number, number> // ms since the fault began
  top: number
}

function drawPanel(row: Row, index: number, bandName: string): string {
  const left = MARGIN + AXIS + (index % COLUMNS) * (PANEL + GAP)
  const top = HEAD + Math.floor(index / COLUMNS) * ROW
  const run = pickRun(row)
  const { steps, faultMs, figures } = run
  const isFirst = index % COLUMNS === 0
  const passesAll = row.store === 'memcached' && row.service === REFERENCE
  const endMs = steps.at(-1)!.atMs + STEP_MS
  const x = scaleLinear([steps[0].atMs, endMs], [left, left + PANEL])
  const bottom = top + PANEL_HEAD + ANSWERS + BETWEEN + LATENCY
  const [from, to] = [x(0), x(faultMs)]
  const failed = `<text class="small end ${figures.failed > 0 ? 'bad' : 'dim'}" x="${fixed(left + PANEL)}" y="${top + 15}">${whole(figures.failed)} failed</text>`
  const band = `<rect class="band" x="${fixed(from)}" width="${fixed(to - from)}" y="${top + PANEL_HEAD}" height="${bottom - top - PANEL_HEAD}"/>`
  const ticks = [0, faultMs].map((ms) => {
    const label = ms === 0 ? '0' : `${(ms / 1_000).toFixed(0)} s`
    return `<line class="edge" x1="${fixed(x(ms))}" x2="${fixed(x(ms))}" y1="${top + PANEL_HEAD - 4}" y2="${top + PANEL_HEAD + ANSWERS}"/><text class="small dim middle" x="${fixed(x(ms))}" y="${bottom + 16}">${label}</text>`
  })
  return `  <g aria-hidden="true">
    <text class="h2 ink" x="${fixed(left)}" y="${top + 15}">${row.service}</text>${failed}
    <text class="small dim" x="${fixed(left)}" y="${top + 31}">${passesAll ? WITHOUT_MEMCACHED : SUBTITLES[row.service]}</text>
    ${band}${drawAnswers(steps, row.ratePerSec, { x, top: top + PANEL_HEAD }, isFirst)}
    ${drawLatency(steps, { x, top: bottom - LATENCY }, isFirst)}
    ${ticks.join('')}<text class="small dim middle" x="${fixed((from + to) / 2)}" y="${bottom + 16}">${bandName}</text>
  </g>`
}

/** Requests per second by what they got, stacked. */
function drawAnswers(
  steps: readonly Step[],
  ratePerSec: number,
  { x, top }: Frame,
  isFirst: boolean,
): string {
  const y = scaleLinear([0, ratePerSec * 1.02], [top + ANSWERS, top])
  const toRate = (count: number) => (count * 1_000) / STEP_MS
  const kinds = KINDS.filter((kind) => steps.some(({ counts }) => counts[kind] > 0))
  const layers = stack<Step, Kind>()
    .keys(kinds)
    .value(({ counts }, kind) => toRate(counts[kind]))(closed(steps).filter(isChange))
  const shape = area<(typeof layers)[number][number]>()
    .x(({ data }) => x(data.atMs))
    .y0(([low]) => y(Math.min(low, ratePerSec * 1.02)))
    .y1(([, high]) => y(Math.min(high, ratePerSec * 1.02)))
    .curve(curveStepAfter)
    .digits(1)
  const paths = layers.map((layer) => `<path class="${layer.key}" d="${shape(layer)}"/>`)
  return (
    paths.join('') + drawAxis(y, x, [0, ratePerSec / 2, ratePerSec], whole, isFirst ? 'requests/s' : null)
  )
}

function drawLatency(steps: readonly Step[], { x, top }: Frame, isFirst: boolean): string {
  const y = scaleLinear([0, P99_MS_MAX], [top + LATENCY, top]).clamp(true)
  const shape = line<Step>()
    .x(({ atMs }) => x(atMs))
    .y(({ p99Ms }) => y(Number.isFinite(p99Ms) ? p99Ms : P99_MS_MAX))
    .curve(curveStepAfter)
    .digits(1)
  const [from, to] = x.range()
  const timeout = `<line class="timeout" x1="${fixed(from)}" x2="${fixed(to)}" y1="${fixed(y(TIMEOUT_MS))}" y2="${fixed(y(TIMEOUT_MS))}"/>`
  const axis = drawAxis(y, x, [0, TIMEOUT_MS], (ms) => `${ms}`, isFirst ? 'p99, ms' : null)
  return `${axis}${timeout}<path class="p99" d="${shape(closed(steps))}"/>`
}

/** The last step again at its end, so that it has a width. */
function closed(steps: readonly Step[]): Step[] {
  const last = steps.at(-1)!
  return [...steps, { ...last, atMs: last.atMs + STEP_MS }]
}

/** Whether a step differs from the one before it, or is the last: the others add nothing to a stepped shape. */
function isChange({ counts }: Step, index: number, steps: readonly Step[]): boolean {
  const before = steps[index - 1]
  return index === steps.length - 1 || KINDS.some((kind) => counts[kind] !== before?.counts[kind])
}

/** Lines across the panel; labels only in the first column, whose title is not null. */
function drawAxis(
  y: ScaleLinear<number, number>,
  x: ScaleLinear<number, number>,
  values: readonly number[],
  format: (value: number) => string,
  title: string | null,
): string {
  const [from, to] = x.range()
  const lines = values.map((value) => {
    const at = fixed(y(value))
    const label =
      title === null
        ? ''
        : `<text class="small dim end" x="${fixed(from - 6)}" y="${fixed(y(value) + 4)}">${format(value)}</text>`
    return `<line class="grid" x1="${fixed(from)}" x2="${fixed(to)}" y1="${at}" y2="${at}"/>${label}`
  })
  const [bottom, top] = y.range()
  const name =
    title === null
      ? ''
      : `<text class="small dim middle" transform="translate(${fixed(from - AXIS - 6)} ${fixed((bottom + top) / 2)}) rotate(-90)">${title}</text>`
  return lines.join('') + name
}

/** In the place of the sixth panel. */
function drawLegend(rows: readonly Row[], bandName: string): string {
  const left = MARGIN + AXIS + (rows.length % COLUMNS) * (PANEL + GAP) + 12
  const top = HEAD + Math.floor(rows.length / COLUMNS) * ROW + PANEL_HEAD
  const kinds = KINDS.filter((kind) =>
    rows.some((row) => pickRun(row).steps.some(({ counts }) => counts[kind] > 0)),
  )
  const entries = [
    ...kinds
      .toReversed()
      .map((kind) => [`<rect class="${kind}" width="22" height="12" y="-10"/>`, NAMES[kind]]),
    ['<rect class="band" width="22" height="12" y="-10"/>', bandName],
    ['<line class="p99" x2="22" y1="-4" y2="-4"/>', '99th percentile of latency, up to 30 ms'],
    ['<line class="timeout" x2="22" y1="-4" y2="-4"/>', `${TIMEOUT_MS} ms, when Envoy gives up`],
  ]
  const lines = entries.map(
    ([mark, text], i) =>
      `<g transform="translate(${fixed(left)} ${top + 12 + i * 22})">${mark}<text class="ink" x="32">${text}</text></g>`,
  )
  return `  <g aria-hidden="true">${lines.join('')}</g>`
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10)
}
