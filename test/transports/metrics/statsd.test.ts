import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { rateText, SAMPLES_MAX } from '../../../transports/metrics/lines.ts'
import type { Sink } from '../../../transports/metrics/sink.ts'
import { type StatsdOptions, statsdSink } from '../../../transports/metrics/statsd.ts'
import { cleanTags } from '../../../transports/metrics/tags.ts'
import { eventually } from '../../helpers/eventually.ts'
import { createSnapshot, datagramPeer, notedLog, StreamPeer, sums } from './peers.ts'

const HITS = 'ratelimit.service.rate_limit.d.a.total_hits'
const TIME = 'ratelimit_server.ShouldRateLimit.response_time'

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

async function tcpPeer(readsNothing = false): Promise<{ peer: StreamPeer; port: number }> {
  const peer = new StreamPeer(readsNothing)
  ends.push(() => peer.close())
  return { peer, port: await peer.open() }
}

function open(options: Partial<StatsdOptions> & { port: number }): Sink {
  const { log } = notedLog()
  const sink = statsdSink({ host: '127.0.0.1', protocol: 'tcp', tags: [], log, redialMs: 20, ...options })
  sink.start()
  ends.unshift(() => sink.close())
  return sink
}

const PADDING = 'x'.repeat(440)

/** Numbered long names: a line of about 500 bytes each. */
function counters(count: number, total: number): [string, number][] {
  return Array.from({ length: count }, (_, i) => [
    `ratelimit.service.rate_limit.shop.rule_${i}_${PADDING}.total_hits`,
    total,
  ])
}

test('7.3 A.5: counters, gauges and timers as lines, tags within the name', async () => {
  const { peer, port } = await tcpPeer()
  const sink = open({ port, tags: cleanTags({ b: 'x.y', a: '1' }) })
  await sink.flush(
    createSnapshot({
      counters: [[HITS, 2]],
      gauges: [
        ['ratelimit.redis_pool.cx_active', 10],
        ['runtime.num_values', 1],
        ['ratelimit.localcache.hitCount', 0],
        ['ratelimit.localcache.averageAccessTime', 1.5],
        ['never.measured', Number.NaN], // no value, no line
      ],
      timers: [{ name: TIME, counts: [[0, 1]] }],
    }),
  )
  await eventually(() =>
    expect(peer.lines).toEqual([
      'ratelimit.service.rate_limit.d.a.total_hits.__a=1.__b=x_y:2|c',
      'ratelimit.redis_pool.cx_active.__a=1.__b=x_y:10|g',
      'runtime.num_values.__a=1.__b=x_y:1|g',
      'ratelimit.localcache.hitCount.__a=1.__b=x_y:0|g',
      'ratelimit.localcache.averageAccessTime.__a=1.__b=x_y:1.5|g',
      'ratelimit_server.ShouldRateLimit.response_time.__a=1.__b=x_y:0|ms',
    ]),
  )
})

test('7.3: a counter is sent as its growth, and only if it grew; a gauge each time', async () => {
  const { peer, port } = await tcpPeer()
  const sink = open({ port })
  for (const [total, other] of [
    [5, 1],
    [5, 1],
    [12, 1],
  ]) {
    await sink.flush(
      createSnapshot({
        counters: [
          [HITS, total],
          ['other', other],
        ],
        gauges: [['runtime.num_values', 3]],
      }),
    )
  }
  const gauge = 'runtime.num_values:3|g'
  await eventually(() =>
    expect(peer.lines).toEqual([`${HITS}:5|c`, 'other:1|c', gauge, gauge, `${HITS}:7|c`, gauge]),
  )
})

test('7.3: a timer is a line per distinct millisecond, with a sample rate for its count', async () => {
  const { peer, port } = await tcpPeer()
  const sink = open({ port })
  const flush = (counts: [number, number][]) =>
    sink.flush(createSnapshot({ timers: [{ name: TIME, counts }] }))
  await flush([
    [0, 4],
    [7, 1],
  ])
  await flush([
    [0, 4 + SAMPLES_MAX + 2],
    [7, 1],
  ])
  await eventually(() => expect(peer.lines).toHaveLength(4))
  const lines = peer.lines.map((line) => line.slice(TIME.length))
  expect(lines.slice(0, 2)).toEqual([':0|ms|@0.25', ':7|ms'])
  expect(lines[2]).toMatch(/^:0\|ms\|@0\.00000\d+$/)
  expect(lines[3]).toBe(':0|ms|@0.5')
})

test('7.3: every sample rate yields the count, rounded or truncated, and is a plain decimal', () => {
  for (let samples = 2; samples <= SAMPLES_MAX; samples += samples < 20_000 ? 1 : 997) {
    const text = rateText(samples)
    if (Math.trunc(1 / Number(text)) !== samples || !/^0\.\d+$/.test(text))
      expect(text).toBe(`rate of ${samples}`)
  }
  expect(rateText(SAMPLES_MAX)).toMatch(/^0\.\d+$/)
})

test('7.3: a flush larger than the queue arrives completely', async () => {
  const { peer, port } = await tcpPeer()
  const sink = open({ port })
  await eventually(() => expect(peer.sockets).toHaveLength(1))
  const all = counters(11_000, 3) // 5.5 MB; the queue is 4 MiB
  await sink.flush(createSnapshot({ counters: all }))
  await eventually(() => expect(peer.lines).toHaveLength(all.length))
  expect(sums(peer.lines)).toEqual(Object.fromEntries(all))
  expect(sink.dropped).toBe(0)
})

test('7.3: a server that starts later receives everything', async () => {
  const { peer, port } = await tcpPeer()
  await peer.close()
  const { log, lines } = notedLog()
  const sink = open({ port, log })
  await sink.flush(createSnapshot({ counters: [[HITS, 5]] }))
  await eventually(() => expect(lines).toHaveLength(1))
  expect(lines[0]).toMatch(
    /^warning: statistics: connection error: statsd 127\.0\.0\.1:\d+ \(tcp\): connect ECONNREFUSED/,
  )
  await sink.flush(createSnapshot({ counters: [[HITS, 6]] }))
  await peer.open(port)
  await eventually(() => expect(sums(peer.lines)).toEqual({ [HITS]: 6 }))
  expect(lines).toEqual([lines[0], expect.stringMatching(/^info: statistics go to/)]) // not a line per dial
})

test('7.3: a server that restarts between flushes misses nothing', async () => {
  const { peer, port } = await tcpPeer()
  const { log, lines } = notedLog()
  const sink = open({ port, log })
  await sink.flush(createSnapshot({ counters: [[HITS, 5]] }))
  await eventually(() => expect(peer.lines).toHaveLength(1))
  await peer.close()
  await eventually(() => expect(lines.join()).toContain('lost: closed by the other side'))
  await sink.flush(createSnapshot({ counters: [[HITS, 9]] }))
  await peer.open(port)
  await eventually(() => expect(sums(peer.lines)).toEqual({ [HITS]: 9 }))
  expect(sink.dropped).toBe(0)
})

test('7.3: a server that accepts and closes immediately is dialed with pauses', async () => {
  const { peer, port } = await tcpPeer()
  const sink = open({ port, redialMs: 50 })
  const startMs = performance.now()
  await eventually(() => {
    peer.sockets.at(-1)?.destroy()
    expect(peer.sockets.length).toBeGreaterThan(3)
  })
  expect((performance.now() - startMs) / (peer.sockets.length - 1)).toBeGreaterThan(40)
  expect(sink.dropped).toBe(0)
})

test('7.3: a server that does not read costs a bounded queue; refused values are counted', async () => {
  const { peer, port } = await tcpPeer(true)
  const { log, lines } = notedLog()
  const sink = open({ port, log, redialMs: 60_000 })
  await eventually(() => expect(peer.sockets).toHaveLength(1))
  const all = counters(44_000, 1) // 22 MB: more than the kernel and the queue hold
  const before = process.memoryUsage().arrayBuffers
  await sink.flush(createSnapshot({ counters: all })) // resolves although the server does not read
  expect(sink.dropped).toBeGreaterThan(1_000)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1024 * 1024)
  await eventually(() => expect(lines.join()).toContain('a write was not taken in 1000 ms'))
})

test('7.3: a server that reads slowly receives everything, and other work gets turns meanwhile', async () => {
  let received = ''
  const server = createServer(async (socket) => {
    socket.setEncoding('utf8')
    for await (const text of socket) {
      received += text
      await sleep(5) // 64 KiB at a time
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  ends.push(() => new Promise((resolve) => server.close(() => resolve())))
  const sink = open({ port: (server.address() as AddressInfo).port })
  const all = counters(11_000, 3)
  let turns = 0
  const timer = setInterval(() => turns++)
  await sink.flush(createSnapshot({ counters: all }))
  clearInterval(timer)
  expect(turns).toBeGreaterThan(3)
  await eventually(() => expect(received.split('\n')).toHaveLength(all.length + 1))
  expect(sums(received.split('\n').slice(0, -1))).toEqual(Object.fromEntries(all))
  expect(sink.dropped).toBe(0)
})

test('7.3: a server that closes within a line never receives the rest of a line first', async () => {
  const texts: string[] = []
  const server = createServer((socket) => {
    const place = texts.push('') - 1
    let leftBytes = 100_001 // within a line
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      texts[place] += bytes.subarray(0, leftBytes)
      leftBytes -= bytes.length
      if (leftBytes <= 0) socket.destroy()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  ends.push(() => new Promise((resolve) => server.close(() => resolve())))
  const { log, lines } = notedLog()
  const sink = open({ port: (server.address() as AddressInfo).port, log })
  let total = 0
  await eventually(async () => {
    total++
    await sink.flush(createSnapshot({ counters: counters(11_000, total) })) // more than kernels hold
    expect(texts.filter((text) => text.length === 100_001).length).toBeGreaterThan(3)
  })
  for (const text of texts) for (const line of text.split('\n').slice(0, -1)) expect(line).toMatch(LINE)
  expect(lines.length).toBeLessThanOrEqual(2) // connected, lost
})

const LINE = /^ratelimit\.service\.rate_limit\.shop\.rule_\d+_x{440}\.total_hits:\d+\|c$/

test('7.3: a connection without an answer is given up after 1.5 s', async (context) => {
  const script =
    'import socket,sys;s=socket.socket();s.bind(("127.0.0.1",0));s.listen(0);print(s.getsockname()[1],flush=True);sys.stdin.read()'
  const python = spawn('python3', ['-c', script]) // Node always accepts, so its backlog never fills
  ends.push(async () => void python.stdin.end())
  const printed = await Promise.race([once(python.stdout, 'data'), once(python, 'error').then(() => null)])
  if (printed === null) return context.skip('python3 is not installed')
  const port = Number(printed[0])
  const waiting = Array.from({ length: 3 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  ends.push(async () => waiting.forEach((socket) => void socket.destroy()))
  await once(waiting[0], 'connect')
  const { log, lines } = notedLog()
  open({ port, log, redialMs: 60_000 })
  await eventually(() => expect(lines).toHaveLength(1))
  expect(lines[0]).toMatch(/^warning: statistics: connection error: statsd .* no answer in 1500 ms$/)
})

test('7.3: values that found no room are sent with a later flush, completely', async () => {
  const { peer, port } = await tcpPeer()
  await peer.close()
  const sink = open({ port })
  const all = counters(11_000, 2)
  await sink.flush(createSnapshot({ counters: all }))
  expect(sink.dropped).toBeGreaterThan(0)
  await peer.open(port)
  const later = all.map(([name, total]): [string, number] => [name, total + 1])
  await eventually(() => expect(peer.lines.length).toBeGreaterThan(0))
  await sink.flush(createSnapshot({ counters: later }))
  await eventually(() => expect(sums(peer.lines)).toEqual(Object.fromEntries(later)))
})

test('7.3: STATSD_PROTOCOL=udp: whole lines in datagrams of at most 1,432 bytes', async () => {
  const peer = await datagramPeer()
  ends.push(peer.close)
  const sink = open({ port: peer.port, protocol: 'udp' })
  const all = counters(600, 4)
  const long = `ratelimit.service.rate_limit.${'x'.repeat(1_500)}.total_hits`
  await sink.flush(createSnapshot({ counters: [...all, [long, 1]] }))
  await eventually(() => expect(peer.lines()).toHaveLength(all.length + 1))
  expect(sums(peer.lines())).toEqual(Object.fromEntries([...all, [long, 1]]))
  const sizes = peer.datagrams.map((datagram) => datagram.length)
  expect(sizes.filter((size) => size > 1_432)).toEqual([`${long}:1|c\n`.length]) // a longer line is a datagram of its own
  expect(sizes[0]).toBeGreaterThan(1_432 - 510)
})

test('7.3: a statsd that restarts on UDP receives later flushes', async () => {
  const first = await datagramPeer()
  const { port } = first
  await first.close()
  const sink = open({ port, protocol: 'udp', host: 'localhost' })
  let total = 0
  const flush = () => sink.flush(createSnapshot({ counters: [[HITS, ++total]] }))
  for (let i = 0; i < 5; i++) await flush()
  const peer = await datagramPeer(port)
  ends.push(peer.close)
  await eventually(async () => {
    await flush()
    expect(peer.lines().length).toBeGreaterThan(0)
  })
  expect(peer.lines().at(-1)).toMatch(/:\d\|c$/)
})

test('7.3: closing sends queued lines, and ends without a server too', async () => {
  const { peer, port } = await tcpPeer()
  const sink = open({ port })
  await eventually(() => expect(peer.sockets).toHaveLength(1))
  await sink.flush(createSnapshot({ counters: [[HITS, 5]] }))
  await sink.close()
  await eventually(() => expect(peer.lines).toEqual([`${HITS}:5|c`]))
  await sink.flush(createSnapshot({ counters: [[HITS, 6]] })) // too late; must not fail
  await peer.close()
  const alone = open({ port })
  await alone.flush(createSnapshot({ counters: [[HITS, 5]] }))
  await alone.close()
})
