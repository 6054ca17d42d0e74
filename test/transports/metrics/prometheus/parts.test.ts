import { expect, test } from 'vitest'
import { metricName } from '../../../../transports/metrics/prometheus/labels.ts'
import { QuantileWindow } from '../../../../transports/metrics/prometheus/quantiles.ts'
import { acceptsGzip } from '../../../../transports/metrics/prometheus/server.ts'

test('6.6: gzip by Accept-Encoding', () => {
  const accepted = ['', 'gzip', 'GZIP', 'br, gzip;q=0.1', 'gzip;q=0', 'gzip;q=oops', 'identity'].map(
    acceptsGzip,
  )
  expect(accepted).toEqual([false, true, true, true, false, false, false])
})

// biome-ignore format: the columns are the specification
const names = [
  ['a.b-c/d',  'a_b_c_d'],
  ['5xx',      '_5xx'],
  ['naïve 😀', 'na_ve__'],
  ['a---b.-c', 'a_b__c'], // consecutive dashes are one, as in statsd_exporter
  ['a-_-b',    'a___b'],
  ['a..b',     'a__b'],
] as const

for (const [text, name] of names) {
  test(`7.6: ${text} is ${name} for Prometheus`, () => expect(metricName(text)).toBe(name))
}

test('7.6: old values leave the window slice by slice', () => {
  const window = new QuantileWindow(100, 5)
  const median = (nowMs: number) => window.quantiles([0.5], nowMs)[0]
  expect(median(0)).toBeNaN()
  window.add(1, 10, 0)
  window.add(9, 4, 45)
  expect([median(45), median(99)]).toEqual([1, 1])
  expect([median(100), median(139)]).toEqual([9, 9])
  expect(median(140)).toBeNaN()
})

test('7.6: each quantile is the smallest value that this share does not exceed', () => {
  const window = new QuantileWindow(100, 5)
  for (let value = 100; value >= 1; value--) window.add(value, 1, 0)
  expect(window.quantiles([0, 0.5, 0.9, 0.99, 1], 0)).toEqual([1, 50, 90, 99, 100])
})

test('7.6: values beyond the maximum of a slice count as the largest', () => {
  const window = new QuantileWindow(100, 5)
  for (let value = 0; value < 10_000; value++) window.add(value, 1, 0)
  window.add(50_000, 10_000, 0)
  expect(window.quantiles([0.25, 0.99], 0)).toEqual([4_999, 9_999])
})
