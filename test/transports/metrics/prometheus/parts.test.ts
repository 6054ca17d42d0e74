import { expect, test } from 'vitest'
import { metricName } from '../../../../transports/metrics/prometheus/labels.ts'
import { formatFor, takesGzip } from '../../../../transports/metrics/prometheus/negotiate.ts'
import { QuantileWindow } from '../../../../transports/metrics/prometheus/quantiles.ts'

const PROMETHEUS =
  'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,' +
  'text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'

// biome-ignore format: the columns are the specification
const accepts = [
  ['',                                                        'text'],
  ['*/*',                                                     'text'],
  [PROMETHEUS,                                                'text'], // as it always got it
  ['application/openmetrics-text',                            'openmetrics'],
  ['application/openmetrics-text, text/plain;q=0',            'openmetrics'],
  ['application/openmetrics-text, text/*;q=0.1',              'text'],
  ['application/openmetrics-text;version=1.0.0, */*;q=0.1',   'text'],
  ['text/plain;q=0.9, application/openmetrics-text; q=0.5',   'text'],
  ['application/openmetrics-text;q=0',                        'text'],
  ['application/json',                                        'text'],
] as const

for (const [accept, format] of accepts) {
  test(`6.6: Accept: ${accept.slice(0, 60)} means ${format}`, () => expect(formatFor(accept)).toBe(format))
}

test('6.6: gzip by Accept-Encoding', () => {
  const answers = ['', 'gzip', 'GZIP', 'br, gzip;q=0.1', 'gzip;q=0', 'gzip;q=oops', 'identity'].map(takesGzip)
  expect(answers).toEqual([false, true, true, true, false, false, false])
})

// biome-ignore format: the columns are the specification
const names = [
  ['a.b-c/d',  'a_b_c_d'],
  ['5xx',      '_5xx'],
  ['naïve 😀', 'na_ve__'],
  ['a---b.-c', 'a_b__c'], // dashes in a row are one, as there
  ['a-_-b',    'a___b'],
  ['a..b',     'a__b'],
] as const

for (const [text, name] of names) {
  test(`7.6: ${text} is ${name} for Prometheus`, () => expect(metricName(text)).toBe(name))
}

test('7.6: quantiles forget what is too old, slice by slice', () => {
  const window = new QuantileWindow(100, 5)
  const median = (nowMs: number) => window.quantiles([0.5], nowMs)[0]
  expect(median(0)).toBeNaN()
  window.add(1, 10, 0)
  window.add(9, 4, 45)
  expect([median(45), median(99)]).toEqual([1, 1])
  expect([median(100), median(139)]).toEqual([9, 9])
  expect(median(140)).toBeNaN()
})

test('7.6: each quantile is the smallest value that so many do not exceed', () => {
  const window = new QuantileWindow(100, 5)
  for (let value = 100; value >= 1; value--) window.add(value, 1, 0)
  expect(window.quantiles([0, 0.5, 0.9, 0.99, 1], 0)).toEqual([1, 50, 90, 99, 100])
})

test('7.6: values beyond what a slice keeps count as the largest', () => {
  const window = new QuantileWindow(100, 5)
  for (let value = 0; value < 10_000; value++) window.add(value, 1, 0)
  window.add(50_000, 10_000, 0)
  expect(window.quantiles([0.25, 0.99], 0)).toEqual([4_999, 9_999])
})
