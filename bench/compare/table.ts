/** A comparison as a table: A, B, and the ratio of the two as median (lowest..highest round). */
import type { Comparison, Spread } from './windows.ts'

const WIDTHS = [16, 12, 12, 27]

export function formatTableHead(): string {
  return `${formatRow(['', 'A', 'B', 'A is better by'])}\n`
}

export function formatTable({ workload, a, b, ratios }: Comparison): string {
  const names = [...new Set([...Object.keys(a.cpuUs), ...Object.keys(b.cpuUs)])]
  const line = (
    name: string,
    key: string,
    left: Spread | undefined,
    right: Spread | undefined,
    digits: number,
  ) => formatRow([name, formatNumber(left, digits), formatNumber(right, digits), formatRatio(ratios[key])])
  const lines = [
    workload,
    ...names.map((name) => line(`  ${name} us`, name, a.cpuUs[name], b.cpuUs[name], 2)),
    line('  decisions/s', 'rate', a.ratePerSec, b.ratePerSec, 0),
    line('  p50 ms', 'p50', a.p50Ms, b.p50Ms, 3),
    line('  p99 ms', 'p99', a.p99Ms, b.p99Ms, 3),
    formatRow(['  generator', formatCores(a.generatorCores), formatCores(b.generatorCores), '']),
    formatRow(['  others', formatCores(a.othersCores), formatCores(b.othersCores), '']),
  ]
  if (a.lagP99Ms !== null)
    lines.push(formatRow(['  lag p99 ms', formatNumber(a.lagP99Ms, 3), formatNumber(b.lagP99Ms!, 3), '']))
  return `${lines.join('\n')}\n`
}

function formatRow(cells: string[]): string {
  return cells
    .map((cell, i) => (i === 0 ? cell.padEnd(WIDTHS[i]) : cell.padStart(WIDTHS[i])))
    .join('')
    .trimEnd()
}

function formatNumber(value: Spread | undefined, digits: number): string {
  return value === undefined ? '-' : value.median.toFixed(digits)
}

function formatCores({ median }: Spread): string {
  return `${(100 * median).toFixed(0)} % core`
}

function formatRatio(value: Spread | undefined): string {
  if (value === undefined) return ''
  const { median, min, max } = value
  const short = (each: number) => (each < 100 ? each.toFixed(2) : each.toFixed(0))
  return `${short(median)} x (${short(min)}..${short(max)})`
}
