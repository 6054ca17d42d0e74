/** A run as one HTML file with charts and figures, which loads nothing and follows the light or dark mode of the browser. */
import { histogramChart, latencyChart, percentileChart, rateChart } from './charts.ts'
import type { Result } from './run.ts'
import { formatSummary } from './text.ts'

const STYLE = `
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --soft: #667080; --grid: #e3e7ed;
  --one: #1f6feb; --two: #d9480f; --three: #8a63d2 }
@media (prefers-color-scheme: dark) { :root { --paper: #12161c; --ink: #e3e8ef; --soft: #93a0b0; --grid: #2a323d;
  --one: #6cb0ff; --two: #ff9a5c; --three: #c3a6ff } }
body { margin: 0 auto; max-width: 48rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.3rem; overflow-wrap: anywhere } h2 { font-size: 1rem; margin: 2rem 0 0.5rem }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem }
.tiles div { border: 1px solid var(--grid); border-radius: 0.4rem; padding: 0.6rem 0.8rem }
.tiles b { display: block; font-size: 1.25rem } .tiles span, p { color: var(--soft) }
.bad, p.bad { color: var(--two) } pre { overflow-x: auto; font-size: 0.8rem }
svg { width: 100%; height: auto; display: block } svg text { font-size: 11px; fill: var(--soft) }
.grid { stroke: var(--grid) } polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round }
polyline.one { stroke: var(--one) } polyline.two { stroke: var(--two) } polyline.three { stroke: var(--three) }
rect.one, svg text.one { fill: var(--one) } svg text.two { fill: var(--two) } svg text.three { fill: var(--three) }
`

export function formatHtml(result: Result): string {
  const { latencyMs: at, cpu, errorCount, series, buckets } = result
  const ms = (value: number) =>
    result.decisions === 0 ? '-' : `${value < 10 ? value.toFixed(3) : value.toFixed(1)} ms`
  const tiles = [
    tile(Math.round(result.ratePerSec).toLocaleString('en-US'), 'decisions per second'),
    tile(ms(at.p50), 'p50'),
    tile(ms(at.p99), 'p99'),
    tile(ms(at.p999), 'p99.9'),
    ...Object.entries(cpu).map(([name, { usPerDecision }]) =>
      tile(result.decisions === 0 ? '-' : `${usPerDecision.toFixed(2)} µs`, `${name} CPU per decision`),
    ),
    tile(errorCount.toLocaleString('en-US'), 'errors', errorCount > 0),
  ]
  const title = `Load on ${escapeHtml(result.endpoint)}`
  const from = result.openLoop ? 'from when a call was due' : 'from when a call was sent'
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style></head>
<body>
<h1>${title}</h1>
<p>${escapeHtml(result.startedAt)}, ${result.seconds.toFixed(1)} s. Latency counts ${from}; quantiles are right to 0.4 %.</p>
${result.warnings.map((warning) => `<p class="bad">Warning: ${escapeHtml(warning)}</p>\n`).join('')}<div class="tiles">${tiles.join('')}</div>
<h2>Latency by percentile</h2>
${percentileChart(buckets)}
<h2>Throughput over time</h2>
${rateChart(series)}
<h2>Latency over time</h2>
${latencyChart(series)}
<h2>Calls by latency</h2>
${histogramChart(buckets)}
<h2>All figures</h2>
<pre>${escapeHtml(formatSummary(result))}</pre>
<pre>${escapeHtml(JSON.stringify(result.load))}</pre>
</body>
</html>
`
}

function tile(value: string, name: string, isBad = false): string {
  return `<div><b${isBad ? ' class="bad"' : ''}>${escapeHtml(value)}</b><span>${escapeHtml(name)}</span></div>`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
