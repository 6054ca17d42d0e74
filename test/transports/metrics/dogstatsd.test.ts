import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { type DogStatsdOptions, dogStatsdSink, globalsFrom } from '../../../transports/metrics/dogstatsd.ts'
import { loadMogrifiers } from '../../../transports/metrics/mogrifiers.ts'
import type { Sink } from '../../../transports/metrics/sink.ts'
import { cleanTags } from '../../../transports/metrics/tags.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { createSnapshot, datagramPeer, notedLog, StreamPeer, sums } from './peers.ts'

const folder = makeTemporaryFolder()

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

const OWN = 'datadog.dogstatsd.client.'
const OWN_LINES = 11 // in each flush
const isOurs = (line: string) => !line.startsWith(OWN)

/** What arrives of a flush over UDP. */
async function sentWithOwn(
  options: Partial<DogStatsdOptions>,
  ...snapshots: Parameters<typeof createSnapshot>[0][]
) {
  const peer = await datagramPeer()
  ends.push(peer.close)
  const sink = open({ port: peer.port, ...options })
  const ownLines = () => peer.lines().filter((line) => !isOurs(line))
  for (const [i, snapshot] of snapshots.entries()) {
    await sink.flush(createSnapshot(snapshot))
    await eventually(() => expect(ownLines()).toHaveLength((i + 1) * OWN_LINES))
  }
  return peer.lines()
}

/** The same without what the client tells of itself. */
async function sent(options: Partial<DogStatsdOptions>, snapshot: Parameters<typeof createSnapshot>[0]) {
  return (await sentWithOwn(options, snapshot)).filter(isOurs)
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

test('7.5: text of clients cannot add tags', async () => {
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

test('7.5: a name from a mogrifier remains a name', async () => {
  const env = { DOG_STATSD_MOGRIFIER_D_PATTERN: '(?s)^x\\.(.*)$', DOG_STATSD_MOGRIFIER_D_NAME: 'a:b|$1' }
  expect(await sent({ mogrify: loadMogrifiers(['D'], env) }, { counters: [['x.c\nd', 1]] })).toEqual([
    'a_b_c_d:1|c',
  ])
})

test('7.5: counters are differences over several flushes, in datagrams of at most 1,432 bytes', async () => {
  const peer = await datagramPeer()
  ends.push(peer.close)
  const sink = open({ port: peer.port, tags: cleanTags({ zone: 'b' }) })
  const at = (total: number) =>
    Array.from({ length: 300 }, (_, i): [string, number] => [`shop.rule_${i}.hits`, total])
  for (const total of [2, 2, 9]) await sink.flush(createSnapshot({ counters: at(total) }))
  const lines = () => peer.lines().filter(isOurs)
  await eventually(() => expect(sums(lines())).toEqual(Object.fromEntries(at(9))))
  expect(lines()).toHaveLength(600)
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
  await sink.flush(createSnapshot({ counters }))
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
    expect(sums(packets().join('').split('\n').slice(0, -1).filter(isOurs))).toEqual(
      Object.fromEntries(counters),
    ),
  )
  expect(packets().length).toBeGreaterThan(1)
})

test('7.5: unix datagram sockets are refused with a remedy', () => {
  expect(() => open({ host: 'unixgram:///var/run/datadog/dsd.socket' })).toThrow(
    'STATSD_HOST: unix datagram sockets cannot be used. Write unixstream:// and set dogstatsd_stream_socket in the ' +
      'agent, or use UDP. [DOGSTATSD_UNIXGRAM]',
  )
})

test('7.5: unix:// with a datagram socket is logged with a remedy', async (context) => {
  const path = join(folder, 'datagrams.socket')
  const script =
    'import socket,sys;s=socket.socket(1,2);s.bind(sys.argv[1]);print(1,flush=True);sys.stdin.read()'
  const python = spawn('python3', ['-c', script, path]) // Node cannot make such a socket, either
  ends.push(async () => void python.stdin.end())
  const isThere = await Promise.race([
    once(python.stdout, 'data').then(() => true),
    once(python, 'error').then(() => false),
  ])
  if (!isThere) return context.skip('no python3 here')
  const { log, lines } = notedLog()
  open({ host: `unix://${path}`, log })
  await eventually(() => expect(lines).toHaveLength(1))
  expect(lines[0]).toBe(
    `warning: statistics: connection error: DogStatsD unix://${path}: unix datagram sockets cannot be used. Please set ` +
      'dogstatsd_stream_socket in the agent, or use UDP.',
  )
})

test('7.5: client telemetry as of Datadog: since the last flush, with the global tags only', async () => {
  const options = {
    tags: cleanTags({ zone: 'b' }),
    globals: { tags: [['env', 'prod']] as const, container: 'abc' },
  }
  const values = {
    counters: [['hits', 5]] as const,
    gauges: [
      ['a', 1],
      ['b', 2],
    ] as const,
  }
  const lines = await sentWithOwn(
    options,
    { ...values, timers: [{ name: 'time', counts: [[3, 4]] }] },
    { ...values, timers: [{ name: 'time', counts: [[3, 9]] }] },
  )
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
  const tags = `env:prod,client:sluice,client_version:${version},client_transport:udp`
  const own = lines.filter((line) => line.startsWith(OWN)).map((line) => line.slice(OWN.length))
  const bytes = (line: string) => Number(/:(\d+)\|/.exec(line)![1])
  expect(own.slice(0, OWN_LINES)).toEqual([
    `metrics:7|c|#${tags}|c:abc`,
    `metrics_by_type:1|c|#${tags},metrics_type:count|c:abc`,
    `metrics_by_type:2|c|#${tags},metrics_type:gauge|c:abc`,
    `metrics_by_type:4|c|#${tags},metrics_type:timing|c:abc`,
    ...['metric_dropped_on_receive', 'packets_sent', 'packets_dropped', 'packets_dropped_writer'].map(
      (name) => `${name}:0|c|#${tags}|c:abc`,
    ),
    ...['bytes_sent', 'bytes_dropped', 'bytes_dropped_writer'].map((name) => `${name}:0|c|#${tags}|c:abc`),
  ])
  const [metrics, , , timing, , packetsSent, , , bytesSent] = own.slice(OWN_LINES)
  expect([bytes(metrics), bytes(timing), bytes(packetsSent)]).toEqual([7, 5, 2]) // the counter has not grown
  expect(bytes(bytesSent)).toBe(`${lines.slice(0, -(3 + OWN_LINES)).join('\n')}\n`.length)
})

/** Files as the kernel shows them, below a folder of the test. */
function machine(files: Record<string, string>): string {
  const root = makeTemporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true })
    if (text === '') mkdirSync(join(root, path))
    else writeFileSync(join(root, path), text)
  }
  return root
}

const CGROUP = 'proc/self/cgroup'
const MOUNTS = 'proc/self/mountinfo'
const ID = 'a1'.repeat(32)
const DOCKER = `12:memory:/docker/${ID}\n0::/`
const mount = (path: string) =>
  `1 2 0:3 / / rw - overlay\n5 6 8:1 ${path} /etc/hostname rw,relatime - ext4 /dev/sda1 rw\n`

// biome-ignore format: the columns are the specification
const containers = [
  // environment, files -> container
  [{},                                       { [CGROUP]: DOCKER },                                               ID],
  [{},                                       { [CGROUP]: `0::/kubepods.slice/cri-${ID}.scope` },                 ID],
  [{},                                       { [CGROUP]: `1:cpu:/ecs/${'c'.repeat(32)}-123` },                   `${'c'.repeat(32)}-123`],
  [{},                                       { [CGROUP]: '0::/user.slice' },                                     ''],
  [{},                                       { [CGROUP]: '0::/', [MOUNTS]: mount(`/var/lib/docker/containers/${ID}/hostname`) }, ID],
  [{},                                       { [CGROUP]: '0::/', [MOUNTS]: mount(`/run/containers/storage/overlay-containers/${ID}/userdata/hostname`) }, ID],
  [{},                                       { [CGROUP]: '0::/', [MOUNTS]: mount(`/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/${ID}/hostname`) }, ''],
  [{},                                       { [CGROUP]: DOCKER, [MOUNTS]: mount(`/containers/${'b2'.repeat(32)}/hostname`) }, ID],
  [{ DD_ORIGIN_DETECTION_ENABLED: 'false' }, { [CGROUP]: DOCKER },                                               ''],
  [{ DD_ENTITY_ID: 'pod-7' },                { [CGROUP]: DOCKER },                                               ''],
  [{},                                       {},                                                                 ''],
] as const

for (const [env, files, container] of containers) {
  const text = Object.values(files).join(' ').slice(-60).trim()
  test(`7.5: ${JSON.stringify(env)} with …${text} is container '${container.slice(0, 10)}'`, () => {
    expect(globalsFrom(env, machine(files)).container).toBe(container)
  })
}

test('7.5: without a container id, the inode of its cgroup is sent', () => {
  const root = machine({ [CGROUP]: '0::/pod', 'sys/fs/cgroup/pod': '' })
  expect(globalsFrom({}, root).container).toBe(`in-${statSync(join(root, 'sys/fs/cgroup/pod')).ino}`)
  const older = machine({ [CGROUP]: '3:cpu:/x\n2:memory:/', 'sys/fs/cgroup/memory': '' })
  expect(globalsFrom({}, older).container).toBe(`in-${statSync(join(older, 'sys/fs/cgroup/memory')).ino}`)
})

test('7.5: the first cgroup namespace is the host, where the inode of a cgroup is no container', (context) => {
  const namespace = '/proc/self/ns/cgroup'
  if (!existsSync(namespace) || statSync(namespace).ino !== 0xeffffffb) return context.skip('not on a host')
  const root = machine({ [CGROUP]: '0::/pod', 'sys/fs/cgroup/pod': '', 'proc/self/ns': '' })
  symlinkSync(namespace, join(root, namespace))
  expect(globalsFrom({}, root).container).toBe('')
})

test('7.5: the container closes a line', async () => {
  const lines = await sent({ globals: { tags: [], container: 'abc' } }, { counters: [['hits', 5]] })
  expect(lines).toEqual(['hits:5|c|c:abc'])
})
