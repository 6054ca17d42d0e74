import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'
import { type DogStatsdOptions, dogStatsdSink, globalsFrom } from '../../../transports/metrics/dogstatsd.ts'
import { loadMogrifiers } from '../../../transports/metrics/mogrifiers.ts'
import type { Sink } from '../../../transports/metrics/sink.ts'
import { cleanTags } from '../../../transports/metrics/tags.ts'
import { datagramPeer, eventually, notedLog, StreamPeer, snapshotOf, sums } from './peers.ts'

const folder = mkdtempSync(join(tmpdir(), 'dogstatsd-'))
afterAll(() => rmSync(folder, { recursive: true }))

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

function open(options: Partial<DogStatsdOptions>): Sink {
  const sink = dogStatsdSink({
    host: '127.0.0.1',
    port: 0,
    tags: [],
    mogrify: loadMogrifiers([], {}),
    globals: { tags: [], container: '' },
    log: notedLog().log,
    redialMs: 20,
    ...options,
  })
  sink.start()
  ends.unshift(() => sink.close())
  return sink
}

/** What arrives of a flush over UDP. */
async function sent(options: Partial<DogStatsdOptions>, snapshot: Parameters<typeof snapshotOf>[0]) {
  const peer = await datagramPeer()
  ends.push(peer.close)
  await open({ port: peer.port, ...options }).flush(snapshotOf(snapshot))
  await eventually(() => expect(peer.datagrams).toHaveLength(1))
  return peer.lines()
}

test('7.5: lines without tags', async () => {
  const lines = await sent(
    {},
    {
      counters: [['hits', 5]],
      gauges: [
        ['cx_active', 10],
        ['load', 0.1],
      ],
      timers: [
        {
          name: 'time',
          counts: [
            [12, 1],
            [13, 4],
          ],
        },
      ],
    },
  )
  expect(lines).toEqual([
    'hits:5|c',
    'cx_active:10|g',
    'load:0.1|g',
    'time:12.000000|ms',
    'time:13.000000|ms|@0.25',
  ])
})

test('7.5: tags leave the name: global ones, those of the name with EXTRA_TAGS, then those of a mogrifier', async () => {
  const env = {
    DOG_STATSD_MOGRIFIER_RULE_PATTERN: '^ratelimit\\.service\\.rate_limit\\.([^.]+)\\.([^.]+)\\.(.*)$',
    DOG_STATSD_MOGRIFIER_RULE_NAME: 'ratelimit.$3',
    DOG_STATSD_MOGRIFIER_RULE_TAGS: 'domain:$1,rule:$2',
  }
  const lines = await sent(
    {
      tags: cleanTags({ zone: 'b' }),
      mogrify: loadMogrifiers(['RULE'], env),
      globals: globalsFrom({ DD_ENV: 'prod', DD_SERVICE: 'sluice', DD_VERSION: '1', DD_ENTITY_ID: 'pod-7' }),
    },
    {
      counters: [
        ['ratelimit.service.rate_limit.shop.user.total_hits', 5],
        ['ratelimit.memcache.add.__code=error', 2],
      ],
      timers: [{ name: 'time', counts: [[0, 2]] }],
    },
  )
  const globals = 'dd.internal.entity_id:pod-7,env:prod,service:sluice,version:1'
  expect(lines).toEqual([
    `ratelimit.total_hits:5|c|#${globals},zone:b,domain:shop,rule:user`,
    `ratelimit.memcache.add:2|c|#${globals},code:error,zone:b`,
    `time:0.000000|ms|@0.5|#${globals},zone:b`,
  ])
})

test('7.5: what callers wrote cannot make tags of its own', async () => {
  const env = {
    DOG_STATSD_MOGRIFIER_D_PATTERN: '^x\\.(.*)\\.hits$',
    DOG_STATSD_MOGRIFIER_D_NAME: 'hits',
    DOG_STATSD_MOGRIFIER_D_TAGS: 'domain:$1',
  }
  const mogrify = loadMogrifiers(['D'], env)
  expect(await sent({ mogrify }, { counters: [['x.a,env:prod.hits', 1]] })).toEqual([
    'hits:1|c|#domain:a_env:prod',
  ])
})

test('7.5: counters are differences over several flushes, in datagrams of at most 1,432 bytes', async () => {
  const peer = await datagramPeer()
  ends.push(peer.close)
  const sink = open({ port: peer.port, tags: cleanTags({ zone: 'b' }) })
  const at = (total: number) =>
    Array.from({ length: 300 }, (_, i): [string, number] => [`shop.rule_${i}.hits`, total])
  for (const total of [2, 2, 9]) await sink.flush(snapshotOf({ counters: at(total) }))
  await eventually(() => expect(sums(peer.lines())).toEqual(Object.fromEntries(at(9))))
  expect(peer.lines()).toHaveLength(600)
  expect(Math.max(...peer.datagrams.map((datagram) => datagram.length))).toBeLessThanOrEqual(1_432)
})

test('7.5: an agent on a unix stream socket gets packets behind their lengths', async () => {
  const path = join(folder, 'dsd.socket')
  const peer = new StreamPeer()
  ends.push(() => peer.close())
  await peer.open(path)
  const sink = open({ host: `unixstream://${path}` })
  const counters = Array.from({ length: 300 }, (_, i): [string, number] => [
    `shop.rule_${i}.a_long_name_of_hits`,
    7,
  ])
  await sink.flush(snapshotOf({ counters }))
  const packets = () => {
    const texts: string[] = []
    for (let at = 0; at < peer.received.length; ) {
      const length = peer.received.readUInt32LE(at)
      expect(length).toBeLessThanOrEqual(8_192)
      texts.push(peer.received.subarray(at + 4, at + 4 + length).toString())
      at += 4 + length
    }
    return texts
  }
  await eventually(() =>
    expect(sums(packets().join('').split('\n').slice(0, -1))).toEqual(Object.fromEntries(counters)),
  )
  expect(packets().length).toBeGreaterThan(1)
})

test('7.5: unix datagram sockets are refused with what to do instead', () => {
  expect(() => open({ host: 'unixgram:///var/run/datadog/dsd.socket' })).toThrow(
    'STATSD_HOST: unix datagram sockets cannot be used. Write unixstream:// and set dogstatsd_stream_socket in the ' +
      'agent, or use UDP. [DOGSTATSD_UNIXGRAM]',
  )
})

const DOCKER = `12:memory:/docker/${'a1'.repeat(32)}\n0::/`

// biome-ignore format: the columns are the specification
const containers = [
  // environment, cgroup -> container
  [{},                                      DOCKER,                                             'a1'.repeat(32)],
  [{},                                      `0::/kubepods.slice/cri-${'b2'.repeat(32)}.scope`,  'b2'.repeat(32)],
  [{},                                      `1:cpu:/ecs/${'c'.repeat(32)}-123`,                 `${'c'.repeat(32)}-123`],
  [{},                                      '0::/user.slice',                                   ''],
  [{ DD_ORIGIN_DETECTION_ENABLED: 'false' }, DOCKER,                                            ''],
  [{ DD_ENTITY_ID: 'pod-7' },               DOCKER,                                             ''],
] as const

for (const [env, text, container] of containers) {
  test(`7.5: ${JSON.stringify(env)} in ${text.slice(0, 30)}… is told as container '${container.slice(0, 10)}'`, () => {
    const file = join(folder, 'cgroup')
    writeFileSync(file, text)
    expect(globalsFrom(env, file).container).toBe(container)
  })
}

test('7.5: the container closes a line; without Linux there is none', async () => {
  const lines = await sent({ globals: { tags: [], container: 'abc' } }, { counters: [['hits', 5]] })
  expect(lines).toEqual(['hits:5|c|c:abc'])
  expect(globalsFrom({}, join(folder, 'missing')).container).toBe('')
})
