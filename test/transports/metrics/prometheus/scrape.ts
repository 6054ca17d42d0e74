/** A Prometheus sink with totals from a test, and a scraper. */
import { request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { expect } from 'vitest'
import { type PrometheusOptions, PrometheusSink } from '../../../../transports/metrics/prometheus.ts'
import type { Snapshot } from '../../../../transports/metrics/sink.ts'
import { createSnapshot, notedLog } from '../peers.ts'

export interface Scraped {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

export class Scraper {
  now: Partial<Snapshot> = {}
  readonly logged: string[]
  readonly sink: PrometheusSink
  private port = 0

  private constructor(options: Partial<PrometheusOptions>) {
    const { log, lines } = notedLog()
    this.logged = lines
    this.sink = new PrometheusSink({
      address: '127.0.0.1:0',
      path: '/metrics',
      mapperFile: '',
      isInMilliseconds: false,
      hasNative: false,
      tags: [],
      read: async () => createSnapshot(this.now),
      log,
      ...options,
    })
  }

  static async open(options: Partial<PrometheusOptions> = {}): Promise<Scraper> {
    const scraper = new Scraper(options)
    scraper.sink.start()
    const port = await scraper.sink.listening
    expect(port, scraper.logged.join()).toBeGreaterThan(0)
    scraper.port = port!
    return scraper
  }

  get(headers: Record<string, string> = {}, path = '/metrics', method = 'GET'): Promise<Scraped> {
    return new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port: this.port, path, method, headers, agent: false }
      const call = request(options, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (bytes) => chunks.push(bytes))
        response.on('end', () => {
          const body = Buffer.concat(chunks)
          const isGzip = response.headers['content-encoding'] === 'gzip' && body.length > 0
          const text = (isGzip ? gunzipSync(body) : body).toString()
          resolve({ status: response.statusCode!, headers: response.headers, text })
        })
      })
      call.on('error', reject).end()
    })
  }

  /** All samples of a scrape except those about the process and the exporter. */
  async samples(): Promise<Record<string, number>> {
    const { text } = await this.get()
    const all = Object.entries(parseSamples(text))
    return Object.fromEntries(
      all.filter(([series]) => !/^(process|nodejs|statsd_exporter|promhttp)_/.test(series)),
    )
  }
}

/** Parses a scrape: series → value. Throws for an invalid line, a duplicate series or one outside its family. */
export function parseSamples(text: string): Record<string, number> {
  const samples: Record<string, number> = {}
  let family = ''
  for (const line of text.split('\n')) {
    const head = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line)
    if (head) family = head[1]
    if (line === '' || line.startsWith('# ')) continue
    const sample = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})? (\S+)$/.exec(line)
    if (sample === null) throw new Error(`not a sample: ${line}`)
    const [, name, labels = '', value] = sample
    if (!name.startsWith(family)) throw new Error(`${line} is not of the family ${family}`)
    if (Object.hasOwn(samples, name + labels)) throw new Error(`duplicate: ${line}`)
    samples[name + labels] = value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value)
  }
  return samples
}
