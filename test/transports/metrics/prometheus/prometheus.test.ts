import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { PrometheusOptions } from '../../../../transports/metrics/prometheus.ts'
import type { NativeStats, Snapshot } from '../../../../transports/metrics/sink.ts'
import { cleanTags } from '../../../../transports/metrics/tags.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'
import { createSnapshot } from '../peers.ts'
import { parseSamples, Scraper } from './scrape.ts'

const RULES = 'ratelimit.service.rate_limit'
const TIME = 'ratelimit_server.ShouldRateLimit.response_time'

const folder = makeTemporaryFolder()

const opened: Scraper[] = []
afterEach(async () => {
  for (const { sink } of opened.splice(0)) await sink.close()
})

async function open(options: Partial<PrometheusOptions> = {}, now: Partial<Snapshot> = {}): Promise<Scraper> {
  const scraper = await Scraper.open(options)
  scraper.now = now
  opened.push(scraper)
  return scraper
}

/** The samples of a scrape. */
async function scraped(now: Partial<Snapshot>, options: Partial<PrometheusOptions> = {}) {
  return (await open(options, now)).samples()
}

const DEGRADED = ['degraded_error', 'degraded_allow', 'degraded_deny', 'degraded_local']

for (const stat of ['near_limit', 'over_limit', 'total_hits', 'within_limit', 'shadow_mode', ...DEGRADED]) {
  test(`7.6#1 7.6#2: ${stat} of a rule, labelled with its first two keys; deeper ones are summed`, async () => {
    const counters = ['a', 'a.b', 'a.b.c', 'a.b.d.e'].map(
      (rule, i) => [`${RULES}.d.${rule}.${stat}`, 10 ** i] as const,
    )
    expect(await scraped({ counters })).toEqual({
      [`ratelimit_service_rate_limit_${stat}{domain="d",key1="a"}`]: 1,
      [`ratelimit_service_rate_limit_${stat}{domain="d",key1="a",key2="b"}`]: 1_110,
    })
  })
}

test('7.6#3: errors by type', async () => {
  const name = 'ratelimit.service.call.should_rate_limit'
  const counters = [
    [`${name}.redis_error`, 1],
    [`${name}.service_error`, 2],
  ] as const
  expect(await scraped({ counters })).toEqual({
    'ratelimit_service_should_rate_limit_error{err_type="redis_error"}': 1,
    'ratelimit_service_should_rate_limit_error{err_type="service_error"}': 2,
  })
})

test('7.6#4 7.6#6 7.6#7: calls by method, loads; as gauges they have no mapping', async () => {
  const names = [
    'ratelimit_server.Check.total_requests',
    'ratelimit.service.config_load_success',
    'ratelimit.service.config_load_error',
  ]
  expect(await scraped({ counters: names.map((name, i) => [name, i + 1]) })).toEqual({
    'ratelimit_service_total_requests{grpc_method="Check"}': 1,
    ratelimit_service_config_load_success: 2,
    ratelimit_service_config_load_error: 3,
  })
  const errors = 'ratelimit.service.call.should_rate_limit.redis_error'
  expect(await scraped({ gauges: [...names, errors].map((name) => [name, 4]) })).toEqual({
    ratelimit_server_Check_total_requests: 4,
    ratelimit_service_config_load_success: 4,
    ratelimit_service_config_load_error: 4,
    ratelimit_service_call_should_rate_limit_redis_error: 4,
  })
})

test('7.6#5: response times are a histogram in seconds', async () => {
  const counts = [
    [0, 4],
    [5, 1],
    [6, 2],
    [10_001, 1],
  ] as const
  const samples = await scraped({ timers: [{ name: TIME, counts }] })
  const series = (part: string) => `ratelimit_service_response_time_seconds${part}`
  const bucket = (le: string) => samples[series(`_bucket{grpc_method="ShouldRateLimit",le="${le}"}`)]
  expect(
    ['0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '+Inf'].map(bucket),
  ).toEqual([5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8])
  expect(samples[series('_count{grpc_method="ShouldRateLimit"}')]).toBe(8)
  expect(samples[series('_sum{grpc_method="ShouldRateLimit"}')]).toBeCloseTo(10.018, 9)
  expect(Object.keys(samples)).toHaveLength(14)
})

test('7.6: PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS keeps the name and holds milliseconds', async () => {
  const samples = await scraped({ timers: [{ name: TIME, counts: [[6, 2]] }] }, { isInMilliseconds: true })
  const series = (part: string) => `ratelimit_service_response_time_seconds${part}`
  expect(samples[series('_sum{grpc_method="ShouldRateLimit"}')]).toBe(12)
  expect(samples[series('_bucket{grpc_method="ShouldRateLimit",le="5"}')]).toBe(0)
  expect(samples[series('_bucket{grpc_method="ShouldRateLimit",le="10"}')]).toBe(2)
})

test('7.6 12#3: over_limit_with_local_cache is not added to over_limit', async () => {
  const counters = ['a', 'a.b'].map((rule) => [`${RULES}.d.${rule}.over_limit_with_local_cache`, 5] as const)
  expect(await scraped({ counters })).toEqual({
    ratelimit_service_rate_limit_d_a_over_limit_with_local_cache: 5,
    ratelimit_service_rate_limit_d_a_b_over_limit_with_local_cache: 5,
  })
})

test('7.6 12#3: the mapping holds for whole names', async () => {
  const counters = [[`x.${RULES}.d.a.b.total_hits`, 1]] as const
  expect(await scraped({ counters })).toEqual({ x_ratelimit_service_rate_limit_d_a_b_total_hits: 1 })
})

test('7.6: names without a mapping', async () => {
  const now = {
    counters: [
      ['ratelimit.service.global_shadow_mode', 1],
      [`${RULES}.no-such/domain.domain_not_found`, 2],
      ['runtime.load_attempts', 3],
      ['4th.é', 4],
    ],
    gauges: [
      ['ratelimit.redis_pool.cx_active', 10],
      ['ratelimit.localcache.hitCount', 0],
    ],
  } as const
  expect(await scraped(now)).toEqual({
    ratelimit_service_global_shadow_mode: 1,
    ratelimit_service_rate_limit_no_such_domain_domain_not_found: 2,
    runtime_load_attempts: 3,
    _4th__: 4,
    ratelimit_redis_pool_cx_active: 10,
    ratelimit_localcache_hitCount: 0,
  })
})

test('7.6: a timer without a mapping is a summary', async () => {
  const counts = [
    [1, 50],
    [2, 40],
    [7, 9],
    [9, 1],
  ] as const
  expect(await scraped({ timers: [{ name: 'some.time', counts }] })).toEqual({
    'some_time{quantile="0.5"}': 1,
    'some_time{quantile="0.9"}': 2,
    'some_time{quantile="0.99"}': 7,
    some_time_sum: 202,
    some_time_count: 100,
  })
})

test('7.6 12#14: EXTRA_TAGS and other tags are labels, and mappings hold all the same', async () => {
  const options = { tags: cleanTags({ COMMIT: '12345', 'my-zone': 'b' }) }
  const counters = [
    [`${RULES}.d.a.total_hits`, 1],
    ['ratelimit.memcache.add.__code=error', 2],
  ] as const
  expect(await scraped({ counters }, options)).toEqual({
    'ratelimit_service_rate_limit_total_hits{COMMIT="12345",domain="d",key1="a",my_zone="b"}': 1,
    'ratelimit_memcache_add{COMMIT="12345",code="error",my_zone="b"}': 2,
  })
})

test('7.6: labels escape values of clients', async () => {
  const domain = 'a"b\\c\nd{}=,'
  expect(await scraped({ counters: [[`${RULES}.${domain}.k.total_hits`, 1]] })).toEqual({
    'ratelimit_service_rate_limit_total_hits{domain="a\\"b\\\\c\\nd{}=,",key1="k"}': 1,
  })
})

test('7.6: totals grow over flushes and scrapes; scrapers are independent', async () => {
  const name = `${RULES}.d.a.total_hits`
  const series = 'ratelimit_service_rate_limit_total_hits{domain="d",key1="a"}'
  const scraper = await open({}, { counters: [[name, 5]], timers: [{ name: TIME, counts: [[0, 1]] }] })
  await scraper.sink.flush(createSnapshot(scraper.now))
  const responses = await Promise.all([scraper.get(), scraper.get({ 'accept-encoding': 'gzip' })])
  expect(responses.map(({ text }) => parseSamples(text)[series])).toEqual([5, 5])
  scraper.now = { counters: [[name, 9]], timers: [{ name: TIME, counts: [[0, 3]] }] }
  const later = await scraper.samples()
  expect(later[series]).toBe(9)
  expect(later['ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"}']).toBe(3)
  expect((await scraper.samples())[series]).toBe(9)
})

const PROMETHEUS_3 =
  'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,' +
  'text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'

test('6.6 7.6: help and types; the text format 0.0.4 whatever Accept names', async () => {
  const now = {
    counters: [
      [`${RULES}.d.a.total_hits`, 1],
      ['some.thing_total', 2],
    ],
    timers: [{ name: TIME, counts: [[0, 1]] }],
  } as const
  const scraper = await open({}, now)
  const plain = await scraper.get()
  expect(plain.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  const help = 'Metric autogenerated by statsd_exporter.'
  const name = 'ratelimit_service_rate_limit_total_hits'
  expect(plain.text).toContain(
    `# HELP ${name} ${help}\n# TYPE ${name} counter\n${name}{domain="d",key1="a"} 1\n`,
  )
  expect(plain.text).toContain('# TYPE some_thing_total counter\nsome_thing_total 2\n')

  expect(plain.text).toContain('le="1"}')
  expect(plain.headers.vary).toBe('Accept-Encoding')
  for (const accept of ['application/openmetrics-text;version=1.0.0', 'application/json', PROMETHEUS_3]) {
    const other = await scraper.get({ accept })
    expect([other.status, other.headers['content-type']]).toEqual([200, plain.headers['content-type']])
    expect(other.text).toContain(`# TYPE ${name} counter\n${name}{domain="d",key1="a"} 1\n`)
    parseSamples(other.text)
  }
})

test('7.6: series about the exporter and the process', async () => {
  const file = join(folder, 'drop.yaml')
  writeFileSync(
    file,
    'mappings: [{match: drop.*, action: drop}, {match: a.*, name: one}, {match: b.*, name: one}, {match: c.*, name: two_sum}]',
  )
  const scraper = await open({ mapperFile: file })
  scraper.now = {
    counters: [
      ['drop.x', 1],
      ['a.x', 2],
      ['loose', 3],
    ],
    gauges: [
      ['b.x', 1], // `one` is a counter already
      ['c.x', 1],
    ],
    timers: [{ name: 'two', counts: [[1, 5]] }], // its sum would be two_sum
  }
  await scraper.get()
  const { text } = await scraper.get()
  const samples = parseSamples(text)
  const own = Object.entries(samples).filter(([series]) => series.startsWith('statsd_exporter_'))
  expect(Object.fromEntries(own)).toEqual({
    'statsd_exporter_events_actions_total{action="drop"}': 1,
    'statsd_exporter_events_actions_total{action="map"}': 5, // gauges each time
    statsd_exporter_events_unmapped_total: 6,
    'statsd_exporter_events_total{type="counter"}': 2,
    'statsd_exporter_events_total{type="gauge"}': 2,
    'statsd_exporter_events_conflict_total{type="gauge"}': 2,
    'statsd_exporter_events_conflict_total{type="observer"}': 5,
    'statsd_exporter_metrics_total{type="counter"}': expect.any(Number),
    'statsd_exporter_metrics_total{type="gauge"}': expect.any(Number),
    'statsd_exporter_metrics_total{type="histogram"}': 0,
    'statsd_exporter_metrics_total{type="summary"}': 0,
  })
  expect(samples).toMatchObject({
    one: 2,
    two_sum: 1,
    loose: 3,
    'promhttp_metric_handler_requests_total{code="200"}': 1,
  })
  expect(samples.process_resident_memory_bytes).toBeGreaterThan(1e6)
  expect(text).toContain('# TYPE nodejs_version_info gauge\n')
})

test('7.6: a help of a mapping stays on its line', async () => {
  const file = join(folder, 'help.yaml')
  writeFileSync(file, 'mappings: [{match: a, name: a, help: "one\\\\two\\nfree 1"}]')
  const scraper = await open({ mapperFile: file }, { counters: [['a', 1]] })
  expect((await scraper.get()).text).toContain('# HELP a one\\\\two\\nfree 1\n# TYPE a counter\n')
})

test('7.6: a mapping to an empty name is an error of the exporter and makes no series', async () => {
  const file = join(folder, 'empty.yaml')
  writeFileSync(file, 'mappings: [{match: "^(b*)a$", match_type: regex, name: "$1"}]')
  const scraper = await open({ mapperFile: file }, { counters: [['a', 1]] })
  expect(await scraper.samples()).toEqual({})
  const samples = parseSamples((await scraper.get()).text)
  expect(samples['statsd_exporter_events_error_total{reason="empty_metric_name"}']).toBe(1)
})

test('7.6: a mapper file replaces the built-in mapping', async () => {
  const file = join(folder, 'mapper.yaml')
  writeFileSync(
    file,
    'mappings:\n- match: ratelimit.service.rate_limit.*.*.*\n  name: "$3"\n  labels: { rule: "$1/$2" }\n',
  )
  const scraper = await open({ mapperFile: file }, { counters: [[`${RULES}.d.a.total_hits`, 1]] })
  expect(await scraper.samples()).toEqual({ 'total_hits{rule="d/a"}': 1 })
})

test('7.6: labels of a mapping win over tags, unless honor_labels is set; le is renamed', async () => {
  const file = join(folder, 'labels.yaml')
  const mapping = (name: string) => `match: ${name}, name: ${name}, labels: { zone: mine }`
  writeFileSync(file, `mappings: [{ ${mapping('a')} }, { ${mapping('b')}, honor_labels: true }]`)
  const options = { mapperFile: file, tags: cleanTags({ zone: 'b', le: '1' }) }
  const counters = ['a', 'b'].map((name) => [name, 1] as const)
  expect(await scraped({ counters }, options)).toEqual({
    'a{exported_le="1",zone="mine"}': 1,
    'b{exported_le="1",zone="b"}': 1,
  })
})

test('7.6: an invalid mapper file is an error in the log, and no name is mapped', async () => {
  const file = join(folder, 'bad.yaml')
  writeFileSync(file, 'mappings: [{match: a.*}]')
  for (const [mapperFile, why] of [
    [file, `${file}: mapping 1 (match "a.*"): there is no name for the metric. [MAPPER_INVALID]`],
    [join(folder, 'missing.yaml'), 'ENOENT: no such file or directory'],
  ]) {
    const scraper = await open({ mapperFile }, { counters: [[`${RULES}.d.a.total_hits`, 1]] })
    expect(scraper.logged[0]).toContain(`error: PROMETHEUS_MAPPER_YAML: `)
    expect(scraper.logged[0]).toContain(why)
    expect(await scraper.samples()).toEqual({ ratelimit_service_rate_limit_d_a_total_hits: 1 })
  }
})

const NATIVE: NativeStats = {
  hits: [
    { domain: 'shop.eu', rule: 'user.plan', code: 'over_limit', total: 4 },
    { domain: 'shop.eu', rule: 'user.plan', code: 'ok', total: 17 },
  ],
  limits: [{ domain: 'shop.eu', rule: 'user.plan', unit: 'minute', requestsPerUnit: 100 }],
  decisionTime: { boundsSec: [0.001, 0.01], counts: [3, 2, 1], sumSec: 0.05 },
}

test('7.6: native series are added if they are enabled', async () => {
  const now = { counters: [[`${RULES}.shop.user.total_hits`, 21]] as const, native: NATIVE }
  const compatible = { 'ratelimit_service_rate_limit_total_hits{domain="shop",key1="user"}': 21 }
  expect(await scraped(now)).toEqual(compatible)
  const scraper = await open({ hasNative: true, tags: cleanTags({ zone: 'b' }) }, { native: NATIVE })
  expect(await scraper.samples()).toEqual({
    'sluice_hits_total{code="over_limit",domain="shop.eu",rule="user.plan",zone="b"}': 4,
    'sluice_hits_total{code="ok",domain="shop.eu",rule="user.plan",zone="b"}': 17,
    'sluice_limit_requests{domain="shop.eu",rule="user.plan",unit="minute",zone="b"}': 100,
    'sluice_decision_duration_seconds_bucket{zone="b",le="0.001"}': 3,
    'sluice_decision_duration_seconds_bucket{zone="b",le="0.01"}': 5,
    'sluice_decision_duration_seconds_bucket{zone="b",le="+Inf"}': 6,
    'sluice_decision_duration_seconds_sum{zone="b"}': 0.05,
    'sluice_decision_duration_seconds_count{zone="b"}': 6,
  })
  scraper.now = { native: { ...NATIVE, limits: [{ ...NATIVE.limits[0], requestsPerUnit: 7, unit: 'hour' }] } }
  const limits = Object.entries(await scraper.samples()).filter(([series]) =>
    series.includes('limit_requests'),
  )
  expect(limits).toEqual([
    ['sluice_limit_requests{domain="shop.eu",rule="user.plan",unit="hour",zone="b"}', 7],
  ])
})

test('7.6: a scrape of 20,000 rules gives other work turns', async () => {
  const counters = Array.from(
    { length: 20_000 },
    (_, i) => [`${RULES}.d.rule_${i}.total_hits`, i + 1] as const,
  )
  const scraper = await open({}, { counters })
  let turns = 0
  const timer = setInterval(() => turns++)
  const samples = await scraper.samples()
  clearInterval(timer)
  expect(Object.keys(samples)).toHaveLength(counters.length)
  expect(samples['ratelimit_service_rate_limit_total_hits{domain="d",key1="rule_19999"}']).toBe(20_000)
  expect(turns).toBeGreaterThan(3)
})
