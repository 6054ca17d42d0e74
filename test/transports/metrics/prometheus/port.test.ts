import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { type PrometheusOptions, PrometheusSink } from '../../../../transports/metrics/prometheus.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { createSnapshot, notedLog } from '../peers.ts'
import { parseSamples, Scraper } from './scrape.ts'

const opened: Scraper[] = []
afterEach(async () => {
  for (const { sink } of opened.splice(0)) await sink.close()
})

async function open(options: Partial<PrometheusOptions> = {}): Promise<Scraper> {
  const scraper = await Scraper.open(options)
  opened.push(scraper)
  return scraper
}

test('6.6: gzip if accepted', async () => {
  const scraper = await open()
  const { headers, text } = await scraper.get({ 'accept-encoding': 'deflate, gzip;q=0.5' })
  expect(headers['content-encoding']).toBe('gzip')
  expect(text).toContain('process_cpu_seconds_total')
  expect((await scraper.get({ 'accept-encoding': 'gzip;q=0' })).headers['content-encoding']).toBeUndefined()
})

test('6.6 12#13: one path with any method; others are 404', async () => {
  const scraper = await open({ path: '/some/where' })
  expect((await scraper.get({}, '/some/where', 'POST')).text).toContain('process_cpu_seconds_total')
  const head = await scraper.get({}, '/some/where', 'HEAD')
  expect([head.status, head.text]).toEqual([200, ''])
  for (const path of ['/', '/metrics', '/debug/pprof/', '/debug/vars']) {
    expect((await scraper.get({}, path)).status, path).toBe(404)
  }
})

const FOREIGN = 'evil.example.com:9090'
const BROWSER = { 'user-agent': 'Mozilla/5.0', 'accept-language': 'en' }
// biome-ignore format: a table
const scrapers: [string, Record<string, string>, number][] = [
  ['a scraper by the name of a cluster',   { host: 'sluice.monitoring.svc', 'user-agent': 'Prometheus/3.0' }, 200],
  ['a scraper by the name of a machine',   { host: 'limits-1.example.com:9090' },                            200],
  ['a browser by an address',              { ...BROWSER, host: '192.0.2.1:9090' },                           200],
  ['a browser by an allowed name',         { ...BROWSER, host: 'Metrics.example.org' },                      200],
  ['a browser by another name',            { ...BROWSER, host: FOREIGN },                                    421],
  ['a browser without Accept-Language',    { host: FOREIGN, 'user-agent': 'Mozilla/5.0' },                   421],
  ['a browser with another User-Agent',    { host: FOREIGN, 'user-agent': 'x', 'accept-language': '' },      421],
  ['a page of another site',               { ...BROWSER, 'sec-fetch-site': 'cross-site' },                   403],
  ['a form of another site',               { ...BROWSER, origin: 'http://evil.example.com' },                403],
  ['a browser, the address was entered',   { ...BROWSER, 'sec-fetch-site': 'none' },                         200],
]
for (const [client, headers, status] of scrapers) {
  test(`6.6: ${client} is ${status}`, async () => {
    const scraper = await open({ allowedHosts: ['metrics.example.org'] })
    const response = await scraper.get(headers)
    expect(response.status).toBe(status)
    if (status === 421) expect(response.text).toContain('or add the name to DEBUG_ALLOWED_HOSTS.')
    if (status !== 200) expect(response.text).not.toContain('process_cpu')
  })
}

test('6.6: a port in use is an error in the log; the sink keeps working', async () => {
  const first = await open()
  const port = await first.sink.listening
  const { log, lines } = notedLog()
  const options = { path: '/', mapperFile: '', isInMilliseconds: false, hasNative: false, tags: [], log }
  const read = async () => createSnapshot({})
  for (const [address, why] of [
    [`127.0.0.1:${port}`, 'already in use'],
    ['9090', 'not host:port or :port'],
    ['host:99999', 'not host:port or :port'],
  ]) {
    const sink = new PrometheusSink({ ...options, address, read })
    sink.start()
    expect(await sink.listening).toBeUndefined()
    expect(lines.at(-1)).toMatch(
      new RegExp(`^error: Failed to open the Prometheus listener on '${address}': .*${why}`),
    )
    await sink.flush(createSnapshot({ counters: [['a', 1]] }))
    await sink.close()
  }
})

test('6.6: a scrape that fails is 500, and the next one works', async () => {
  let isBroken = true
  const read = async () => {
    if (isBroken) throw new Error('no worker answers')
    return createSnapshot({ counters: [['a', 1]] })
  }
  const scraper = await open({ read })
  expect(await scraper.get()).toMatchObject({ status: 500, text: 'no worker answers\n' })
  isBroken = false
  expect(parseSamples((await scraper.get()).text).a).toBe(1)
})

test('6.6: concurrent scrapes share one reading and one text; the seventeenth is 503', async () => {
  let readings = 0
  let release = (): void => {}
  const held = new Promise<void>((resolve) => (release = resolve))
  const read = async () => {
    readings++
    await held
    return createSnapshot({ counters: [['a', 1]] })
  }
  const scraper = await open({ read })
  const all = Array.from({ length: 17 }, () => scraper.get())
  expect(await Promise.race(all)).toMatchObject({ status: 503, text: '16 scrapes are in progress\n' })
  const compressed = scraper.sink.scrape(true)
  release()
  await compressed
  const texts = (await Promise.all(all)).filter(({ status }) => status === 200).map(({ text }) => text)
  expect(texts).toHaveLength(16)
  expect(new Set(texts).size).toBe(1)
  expect(readings).toBe(1)
  const { sink } = scraper
  expect(sink.scrape(true)).toBe(sink.scrape(true))
})

test('6.6: PROMETHEUS_ADDR without a host means all addresses', async () => {
  const scraper = await open({ address: ':0' })
  expect((await scraper.get()).status).toBe(200) // over 127.0.0.1
})

test('6.6: scrapers that do not read are counted until they disconnect; one that reads slowly gets all', async () => {
  const long = 'a'.repeat(500) // three times per series: 15 MB, more than sockets hold
  const counters = Array.from({ length: 10_000 }, (_, i): [string, number] => [`${long}_${i}`, i])
  const scraper = await open({ read: async () => createSnapshot({ counters }) })
  const port = (await scraper.sink.listening)!
  const unread = await Promise.all(
    Array.from({ length: 16 }, async () => {
      const socket = connect(port, '127.0.0.1')
      socket.write('GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n')
      await once(socket, 'readable')
      return socket // paused from here on
    }),
  )
  expect((await scraper.get()).status).toBe(503)
  for (const socket of unread) socket.destroy()
  await eventually(async () => expect(await (await scraper.get()).status).toBe(200))
  const slow = await fetch(`http://127.0.0.1:${port}/metrics`)
  let text = ''
  for await (const chunk of slow.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    await sleep(1)
  }
  expect(parseSamples(text)[`${long}_9999`]).toBe(9_999)
})
