import { expect, test } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { createSink, reservedTagsCount, selectSink } from '../../../transports/metrics/create-sink.ts'
import { createSnapshot, notedLog } from './peers.ts'

function choose(env: Record<string, string>): string {
  try {
    return selectSink(parseSettings(env).settings)
  } catch (error) {
    return (error as Error).message
  }
}

const two = (...names: string[]) =>
  `Error: unable to use more than one stats sink at the same time. ${names.join(' and ')} are true: ` +
  'set all but one of them to false. [STATS_SINKS]'

// biome-ignore format: the columns are the specification
const cases = [
  // DISABLE_STATS, USE_DOG_STATSD, USE_STATSD, USE_PROMETHEUS -> sink
  ['-',     '-',    '-',     '-',    'statsd'],
  ['-',     '-',    'false', '-',    'printing'],
  ['-',     'true', 'false', '-',    'dogstatsd'],
  ['-',     '-',    'false', 'true', 'prometheus'],
  ['-',     'true', '-',     '-',    'dogstatsd'],  // a default gives way
  ['-',     '-',    '-',     'true', 'prometheus'],
  ['-',     '-',    '',      'true', 'prometheus'], // empty is the default
  ['-',     '-',    '-',     'false', 'statsd'],
  ['-',     'true', 'true',  '-',    two('USE_DOG_STATSD', 'USE_STATSD')],
  ['-',     '-',    'true',  'true', two('USE_STATSD', 'USE_PROMETHEUS')],
  ['-',     'true', '-',     'true', two('USE_DOG_STATSD', 'USE_PROMETHEUS')],
  ['-',     'true', 'true',  'true', two('USE_DOG_STATSD', 'USE_STATSD', 'USE_PROMETHEUS')],
  ['true',  'true', 'true',  'true', 'none'],
  ['true',  '-',    'false', '-',    'none'],
] as const

for (const [disable, dog, statsd, prometheus, expected] of cases) {
  test(`7.3 10#34 10#39 10#45 10#46: DISABLE ${disable}, DOG ${dog}, STATSD ${statsd}, PROMETHEUS ${prometheus}: ${expected}`, () => {
    const given = {
      DISABLE_STATS: disable,
      USE_DOG_STATSD: dog,
      USE_STATSD: statsd,
      USE_PROMETHEUS: prometheus,
    }
    expect(choose(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== '-')))).toBe(
      expected,
    )
  })
}

test('7.3: the older names are accepted', () => {
  expect(choose({ USE_PUSH_STATS: 'false', USE_TAGGED_STATS: 'true' })).toBe('dogstatsd')
  expect(choose({ USE_PULLMETRICS: 'true' })).toBe('prometheus')
  expect(choose({ USE_PUSH_STATS: 'true', USE_PULLMETRICS: 'true' })).toBe(
    two('USE_STATSD', 'USE_PROMETHEUS'),
  )
})

test('a setting of statistics that cannot be used ends the process with exit code 2', async () => {
  const environments: Record<string, string>[] = [
    { USE_STATSD: 'true', USE_PROMETHEUS: 'true' },
    { STATSD_PROTOCOL: 'sctp' },
    { STATSD_HOST: 'unix:///run/statsd.socket' },
    { USE_DOG_STATSD: 'true', STATSD_HOST: 'unixgram:///run/statsd.socket' },
    { USE_DOG_STATSD: 'true', USE_DOG_STATSD_MOGRIFIERS: 'FOO' },
  ]
  for (const env of environments) await expect(open(env)).rejects.toMatchObject({ exitCode: 2 })
})

function open(env: Record<string, string>) {
  const { settings } = parseSettings(env)
  const read = async () => createSnapshot({})
  return createSink({ settings, hasNative: false, env, read, log: notedLog().log })
}

test('7.3: each selected sink opens; without one it is null', async () => {
  const environments: Record<string, string>[] = [
    { DISABLE_STATS: 'true' },
    { USE_STATSD: 'false' },
    { STATSD_PROTOCOL: 'udp' },
    { USE_STATSD: 'false', USE_DOG_STATSD: 'true' },
    { USE_STATSD: 'false', USE_PROMETHEUS: 'true' },
  ]
  for (const env of environments) {
    const sink = await open(env)
    if ('DISABLE_STATS' in env) expect(sink).toBe(null)
    else expect(sink?.dropped).toBe(0)
  }
})

test('7.5: mogrifiers come from the environment, and their mistakes stop the start', async () => {
  const env = { USE_STATSD: 'false', USE_DOG_STATSD: 'true', USE_DOG_STATSD_MOGRIFIERS: 'FOO' }
  await expect(open(env)).rejects.toThrow('no PATTERN specified for mogrifier FOO [MOGRIFIER_INVALID]')
})

test('7.3 10#42: another STATSD_PROTOCOL stops the start', async () => {
  for (const STATSD_PROTOCOL of ['sctp', 'unixgram', 'TCP']) {
    await expect(open({ STATSD_PROTOCOL })).rejects.toThrow(
      `STATSD_PROTOCOL=${STATSD_PROTOCOL}: is not known. Write tcp or udp; unix sockets are for DogStatsD alone `,
    )
  }
})

test('7.3: a unix socket for statsd stops the start with a remedy', async () => {
  await expect(open({ STATSD_HOST: 'unix:///var/run/statsd.socket' })).rejects.toThrow(
    'STATSD_HOST=unix:///var/run/statsd.socket: is no host; unix sockets are for DogStatsD alone. Write the host ' +
      'alone, or set USE_STATSD=false and USE_DOG_STATSD=true. [STATSD_SOCKET]',
  )
})

test('7.3: an interval of 0 between flushes stops the start', () => {
  for (const STATS_FLUSH_INTERVAL of ['0', '0s', '-1s']) {
    expect(() => parseSettings({ STATS_FLUSH_INTERVAL })).toThrow('STATS_FLUSH_INTERVAL')
  }
})

test('7.1: reserved tag names in EXTRA_TAGS are counted', () => {
  expect(reservedTagsCount(parseSettings({ EXTRA_TAGS: 'region:a,COMMIT:5,az:' }).settings)).toBe(1)
})
