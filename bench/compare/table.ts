/** A comparison as a table: A, B, and how many times better A is, as median (lowest..highest round). */
import type { Comparison, Spread } from './windows.ts'

const WIDTHS = [16, 12, 12, 27]

export function tableHead(): string {
  return `${row(['', 'A', 'B', 'A is better by'])}\n`
}

export function table({ workload, a, b, ratios }: Comparison): string {
  const names = [...new Set([...Object.keys(a.cpuUs), ...Object.keys(b.cpuUs)])]
  const line = (
    name: string,
    key: string,
    left: Spread | undefined,
    right: Spread | undefined,
    digits: number,
  ) => row([name, number(left, digits), number(right, digits), ratio(ratios[key])])
  const lines = [
    workload,
    ...names.map((name) => line(`  ${name} us`, name, a.cpuUs[name], b.cpuUs[name], 2)),
    line('  decisions/s', 'rate', a.ratePerSec, b.ratePerSec, 0),
    line('  p50 ms', 'p50', a.p50Ms, b.p50Ms, 3),
    line('  p99 ms', 'p99', a.p99Ms, b.p99Ms, 3),
    row(['  generator', share(a.generatorCores), share(b.generatorCores), '']),
    row(['  others', share(a.othersCores), share(b.othersCores), '']),
  ]
  if (a.lagP99Ms !== null)
    lines.push(row(['  lag p99 ms', number(a.lagP99Ms, 3), number(b.lagP99Ms!, 3), '']))
  return `${lines.join('\n')}\n`
}

function row(cells: string[]): string {
  return cells
    .map((cell, i) => (i === 0 ? cell.padEnd(WIDTHS[i]) : cell.padStart(WIDTHS[i])))
    .join('')
    .trimEnd()
}

function number(value: Spread | undefined, digits: number): string {
  return value === undefined ? '-' : value.median.toFixed(digits)
}

function share({ median }: Spread): string {
  return `${(100 * median).toFixed(0)} % core`
}

function ratio(value: Spread | undefined): string {
  if (value === undefined) return ''
  const { median, min, max } = value
  const short = (each: number) => (each < 100 ? each.toFixed(2) : each.toFixed(0))
  return `${short(median)} x (${short(min)}..${short(max)})`
}
