import { expect, test } from 'vitest'
import { drawTimeChart, type Panel, type TimeChart, TONES } from './svg.ts'

const seconds = 60
const each = (value: (sec: number) => number | null): [number, number | null][] =>
  Array.from({ length: seconds }, (_, sec) => [sec, value(sec)])
const panel = (part: Partial<Panel>): Panel => ({
  title: 'calls per second',
  kind: 'lines',
  scale: 'linear',
  reduce: 'mean',
  series: [{ name: 'calls', tone: 'blue', values: each(() => 10) }],
  ...part,
})
const chart = (part: Partial<TimeChart>) =>
  drawTimeChart({ title: 'Title', description: 'Description', seconds, spans: [], panels: [], ...part })

/** The [x, y] of the paths of a class, in drawing order. */
function readPaths(svg: string, kind: string): [number, number][][] {
  return [...svg.matchAll(new RegExp(`<path class="${kind}[^"]*" d="([^"]{0,100000})"`, 'g'))].map(([, d]) =>
    [...d.matchAll(/[ML](-?[\d.]+),(-?[\d.]+)/g)].map(([, x, y]): [number, number] => [Number(x), Number(y)]),
  )
}

const lines = (svg: string) => readPaths(svg, 'line').filter((points) => points.length > 1)

test('a line goes up when its value does, and time goes to the right', () => {
  const [points] = lines(
    chart({ panels: [panel({ series: [{ name: 'n', tone: 'red', values: each((sec) => sec) }] })] }),
  )
  expect(points).toHaveLength(seconds)
  for (let i = 1; i < points.length; i++) {
    expect(points[i][0]).toBeGreaterThan(points[i - 1][0])
    expect(points[i][1]).toBeLessThan(points[i - 1][1])
  }
})

test('a line is interrupted where nothing is known', () => {
  const values = each((sec) => (sec >= 20 && sec < 30 ? null : 1))
  const svg = chart({ panels: [panel({ series: [{ name: 'n', tone: 'red', values }] })] })
  expect(lines(svg)[0]).toHaveLength(50)
  expect(/class="line red" d="([^"]+)"/.exec(svg)![1].match(/M/g)).toHaveLength(2)
})

test('the layers of a stack begin where those below end', () => {
  const series = [1, 2].map((value) => ({
    name: `n${value}`,
    tone: 'blue' as const,
    values: each(() => value),
  }))
  const [low, high] = readPaths(chart({ panels: [panel({ kind: 'stack', series })] }), 'fill')
  const [base, first, second] = [low.at(-1)![1], low[0][1], high[0][1]]
  expect(high.at(-1)![1]).toBe(first)
  expect(first - second).toBeCloseTo(2 * (base - first), 0)
})

test('on a logarithmic scale each tenfold takes the same height', () => {
  const values = each((sec) => 10 ** (sec % 3))
  const [points] = lines(
    chart({ panels: [panel({ scale: 'log', series: [{ name: 'n', tone: 'red', values }] })] }),
  )
  const [one, ten, hundred] = points.map(([, y]) => y)
  expect(one - ten).toBeCloseTo(ten - hundred, 0)
})

test('many values become few points, which keep peaks where `reduce` is max', () => {
  const values = Array.from({ length: 60_000 }, (_, i): [number, number] => [
    i / 1_000,
    i === 30_000 ? 100 : 1,
  ])
  const height = (reduce: 'max' | 'mean') => {
    const [points] = lines(
      chart({ panels: [panel({ reduce, series: [{ name: 'n', tone: 'red', values }] })] }),
    )
    expect(points.length).toBeLessThan(500)
    const heights = points.map(([, y]) => y)
    return (Math.max(...heights) - Math.min(...heights)) / Math.max(...heights)
  }
  expect(height('max')).toBeGreaterThan(0.3)
  expect(height('mean')).toBeGreaterThan(0)
})

test('spans have a letter per name, explained below, and those too close to others have none', () => {
  const spans = [
    { name: 'Redis killed', fromSec: 10, toSec: 12 },
    { name: 'connections cut', fromSec: 30, toSec: 32 },
    { name: 'connections cut', fromSec: 30.1, toSec: 32.1 },
    { name: 'Redis killed', fromSec: 50, toSec: 52 },
  ]
  const svg = chart({ spans })
  expect(svg.match(/class="span"/g)).toHaveLength(4)
  expect(svg.match(/>[AB]</g)).toEqual(['>A<', '>B<', '>A<'])
  expect(svg).toContain('>A  Redis killed<')
  expect(svg).toContain('>B  connections cut<')
})

test('title and description are those of the picture, and text is escaped', () => {
  const svg = chart({ title: 'a < b & "c"', description: 'peak <1 ms' })
  expect(svg).toContain('<title id="title">a &#60; b &#38; &#34;c&#34;</title>')
  expect(svg).toContain('<desc id="description">peak &#60;1 ms</desc>')
  expect(svg).toContain('role="img" aria-labelledby="title description"')
})

test.each([
  [0, '#ffffff'],
  [1, '#0d1117'],
])('colours of theme %i have a contrast of 3:1 with its paper', (theme, paper) => {
  expect(chart({})).toContain(`.paper{fill:${paper}}`)
  for (const [name, colours] of Object.entries(TONES)) {
    const [a, b] = [luminance(colours[theme]), luminance(paper)]
    expect((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), name).toBeGreaterThanOrEqual(3)
  }
})

/** Relative luminance, WCAG 2.2. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
