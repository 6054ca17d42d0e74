import { expect, test } from 'vitest'
import type { MappedType } from '../../../../transports/metrics/prometheus/mapper.ts'
import { parseMapperFile } from '../../../../transports/metrics/prometheus/mapper-file.ts'

function parse(text: string, warn: (line: string) => void = () => {}) {
  return parseMapperFile(text, 'm.yaml', warn)
}

/** `name label=value …`, or why not. */
function mapped(text: string, name: string, type: MappedType = 'counter'): string {
  const found = parse(text).find(name, type)
  if (found === undefined) return 'unmapped'
  if (found.mapping.isDrop) return 'dropped'
  return [found.name, ...found.labels.map(([key, value]) => `${key}=${value}`)].join(' ')
}

// biome-ignore format: the columns are the specification
const cases = [
  // mappings, name -> metric
  ['[{match: a.*.c, name: m, labels: {x: $1}}]',                     'a.b.c',     'm x=b'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Go's placeholders
  ['[{match: a.*.c, name: m, labels: {x: "${1}s"}}]',                'a.b.c',     'm x=bs'],
  ['[{match: a.*, name: m, labels: {x: "$1-$2"}}]',                  'a.b',       'm x=b-$2'], // no such star: stays
  ['[{match: a.*, name: m_$1}]',                                     'a.b',       'm_b'],
  ['[{match: a.*, name: "$1_m$1_x"}]',                               'a.b',       'b_mb_x'],
  ['[{match: a.*, name: m}]',                                        'a.b.c',     'unmapped'], // a star is one component
  ['[{match: a.*, name: m}]',                                        'x.a.b',     'unmapped'],
  ['[{match: a.*.c, name: m}]',                                      'a..c',      'm'],
  ['[{match: a, name: m}]',                                          'a',         'm'],
  ['[{match: a.*, name: m}, {match: a.b, name: n}]',                 'a.b',       'm'], // the order of the file
  ['[{match: a\\..*, match_type: regex, name: r}, {match: a.b, name: g}]', 'a.b', 'g'], // globs first
  ['[{match: b, match_type: regex, name: r}]',                       'abc',       'r'], // anywhere
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Go's placeholders
  ['[{match: (a)(z)?(?P<k>b), match_type: regex, name: r, labels: {x: "$1-$2-${3}-$k-$kk-$$"}}]',
                                                                     'ab',        'r x=a--b-b--$'],
  ['[{match: "a.*", action: drop}]',                                 'a.b',       'dropped'],
  ['[{match: ".", match_type: regex, action: drop, name: x}]',       'a.b',       'dropped'],
  ['[{match: a.*, match_metric_type: gauge, name: m}]',              'a.b',       'unmapped'],
  ['[{match: a.*, match_metric_type: gauge, name: m}, {match: a.*, name: n}]', 'a.b', 'n'],
  ['[{match: a.*, match_metric_type: counter, name: m}]',            'a.b',       'm'],
  ['[]',                                                             'a',         'unmapped'],
] as const

for (const [mappings, name, metric] of cases) {
  test(`7.6: ${mappings} makes ${name} ${metric}`, () =>
    expect(mapped(`mappings: ${mappings}`, name)).toBe(metric))
}

test('7.6: timers are observers, also by their older name', () => {
  for (const word of ['timer', 'observer']) {
    const text = `mappings: [{match: a, match_metric_type: ${word}, name: m}]`
    expect([mapped(text, 'a', 'observer'), mapped(text, 'a')]).toEqual(['m', 'unmapped'])
  }
})

test('7.6: with glob_disable_ordering the most literal glob wins', () => {
  const mappings = '[{match: "*.b.*", name: late}, {match: a.*.*, name: middle}, {match: a.*.c, name: first}]'
  const text = `defaults: {glob_disable_ordering: true}\nmappings: ${mappings}`
  expect(mapped(text, 'a.b.c')).toBe('first')
  expect(mapped(text, 'a.b.x')).toBe('middle')
  expect(mapped(`mappings: ${mappings}`, 'a.b.c')).toBe('late')
})

test('7.6: defaults apply to mappings without the key', () => {
  const mapper = parse(`
defaults: { match_type: regex, observer_type: histogram, histogram_options: { buckets: [1, 2] } }
mappings:
  - { match: ^a$, name: a }
  - { match: b.*, match_type: glob, name: b, buckets: [3] }
  - { match: ^c, name: c, timer_type: summary, help: mine, scale: 0.5, honor_labels: true }
`)
  expect(mapper.find('a', 'observer')?.mapping.observer).toEqual({ type: 'histogram', buckets: [1, 2] })
  expect(mapper.find('b.x', 'observer')?.mapping.observer).toEqual({ type: 'histogram', buckets: [3] })
  expect(mapper.find('cc', 'observer')?.mapping).toMatchObject({
    help: 'mine',
    scale: 0.5,
    honorLabels: true,
    observer: { type: 'summary', quantiles: [0.5, 0.9, 0.99], maxAgeMs: 600_000, ageBuckets: 5 },
  })
  expect(mapper.defaultObserver).toEqual({ type: 'histogram', buckets: [1, 2] })
})

test('7.6: an empty file maps nothing; summary options are read', () => {
  expect(parse('').find('a', 'counter')).toBeUndefined()
  const options = '{quantiles: [{quantile: 0.75, error: 0.1}], max_age: 1m, age_buckets: 2}'
  const { defaultObserver } = parse(`defaults: {summary_options: ${options}}`)
  expect(defaultObserver).toEqual({ type: 'summary', quantiles: [0.75], maxAgeMs: 60_000, ageBuckets: 2 })
})

test('7.6: keys without an effect are warnings', () => {
  const lines: string[] = []
  parse('defaults: {ttl: 5m}\nmappings: [{match: a, name: b, ttl: 1m, lables: {}}]', (line) =>
    lines.push(line),
  )
  expect(lines).toEqual([
    'm.yaml: defaults: ttl has no effect here',
    'm.yaml: mapping 1: ttl, lables have no effect here',
  ])
})

// biome-ignore format: the columns are the specification
const bad = [
  ['mappings: [',                                              'm.yaml: not valid YAML: '],
  ['- a',                                                      'm.yaml: a map is needed here.'],
  ['mappings: {}',                                             'm.yaml: mappings must be a list.'],
  ['mappings: [a]',                                            'm.yaml: mapping 1: a map is needed here.'],
  ['mappings: [{match: a, name: b}, {match: c.*}]',            'm.yaml: mapping 2 (match "c.*"): there is no name for the metric.'],
  ['mappings: [{match: a, name: a-b}]',                        '"a-b" cannot be the name of a metric.'],
  ['mappings: [{match: a, name: "a$"}]',                       '"a$" cannot be the name of a metric.'],
  ['mappings: [{match: a, name: "$1}}"}]',                      '"$1}}" cannot be the name of a metric.'],
  ['mappings: [{match: a, name: 1a}]',                         '"1a" cannot be the name of a metric.'],
  ['mappings: [{match: a, name: b, labels: {x-y: z}}]',        '"x-y" cannot be the name of a label.'],
  ['mappings: [{match: a.b*, name: b}]',                       'a glob has components between dots, and * is a whole one.'],
  ['mappings: [{match: a..b, name: b}]',                       'a glob has components between dots'],
  ['mappings: [{match: (, match_type: regex, name: b}]',       'the regular expression cannot be used: error parsing regexp: missing closing )'],
  ['mappings: [{match: "a(?=b)", match_type: regex, name: b}]', 'invalid or unsupported Perl syntax: `(?=`'],
  ['mappings: [{match: a, match_type: re2, name: b}]',         'match_type must be glob or regex.'],
  ['mappings: [{match: a, match_metric_type: set, name: b}]',  'match_metric_type must be counter or gauge or observer or timer.'],
  ['mappings: [{match: a, action: keep, name: b}]',            'action must be map or drop.'],
  ['mappings: [{match: a, name: 5}]',                          'name must be a text.'],
  ['mappings: [{match: a, name: b, scale: x}]',                'scale must hold numbers.'],
  ['mappings: [{match: a, name: b, observer_type: x}]',        'observer_type must be histogram or summary.'],
  ['mappings: [{match: a, name: b, observer_type: histogram, buckets: [2, 1]}]', 'buckets must ascend.'],
  ['mappings: [{match: a, name: b, observer_type: histogram, buckets: []}]', 'buckets must be a list of 1 to 200 numbers.'],
  ['mappings: [{match: a, name: b, observer_type: histogram, summary_options: {}}]', 'summary_options have no meaning'],
  ['mappings: [{match: a, name: b, histogram_options: {}}]',   'histogram_options have no meaning'],
  ['defaults: {summary_options: {max_age: soon}}',             'm.yaml: defaults: max_age must be a duration'],
  ['defaults: {summary_options: {age_buckets: 0}}',            'age_buckets must be from 1 to 100.'],
  ['defaults: {quantiles: [{quantile: 2}]}',                   'a quantile is from 0 to 1.'],
  [`mappings: [${'{match: a, name: b},'.repeat(1_001)}]`,      'm.yaml: there are more than 1000 mappings.'],
  [`# ${'x'.repeat(1_048_576)}`,                               'm.yaml: the file is longer than 1048576 characters.'],
] as const

for (const [text, error] of bad) {
  test(`7.6: refused: ${text.slice(0, 70)}: ${error}`, () => expect(() => parse(text)).toThrow(error))
}
