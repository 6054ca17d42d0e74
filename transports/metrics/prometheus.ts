/**
 * Statistics for Prometheus (spec 6.6, 7.6): a port that serves all series.
 *
 *     scrape ─► read totals ─► add the growth ─► write ─► (gzip)        concurrent scrapes share the result
 *     flush  ─────────────────► add the growth                         so quantiles also change without scrapes
 *
 * envoyproxy/ratelimit adds counters at its flushes, so its scrapes are up to STATS_FLUSH_INTERVAL old; here they are current.
 * prometheus/series.ts explains why prom-client does not keep the series. A port that cannot be opened is logged as an
 * error, and the service continues.
 */
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { ownNames } from '../debug/access.ts'
import { claimPorts, NO_PORT } from '../ports.ts'
import { builtInMapping } from './prometheus/built-in-mapping.ts'
import { expose } from './prometheus/exposition.ts'
import { Mapper } from './prometheus/mapper.ts'
import { DEFAULT_OBSERVER, parseMapperFile } from './prometheus/mapper-file.ts'
import { measureProcess } from './prometheus/process-series.ts'
import { type Family, Refusal } from './prometheus/series.ts'
import { SeriesUpdater } from './prometheus/series-updater.ts'
import { MetricsPort } from './prometheus/server.ts'
import type { Sink, Snapshot } from './sink.ts'
import type { Tags } from './tags.ts'

const PORTION_CHARS = 256 * 1024 // of text before other work gets a turn
const ALL_ADDRESSES = ['::', '0.0.0.0'] // the first includes IPv4, if the machine has IPv6
const ADDRESS = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/

export interface PrometheusOptions {
  address: string // PROMETHEUS_ADDR, such as `:9090`
  path: string
  allowedHosts?: readonly string[] // DEBUG_ALLOWED_HOSTS; default none
  mapperFile: string // empty = the built-in mapping
  isInMilliseconds: boolean
  hasNative: boolean
  tags: Tags
  read: () => Promise<Snapshot>
  log: Log
}

export class PrometheusSink implements Sink {
  private readonly options: PrometheusOptions
  private readonly updater: SeriesUpdater
  private readonly readProcess = measureProcess()
  private readonly inProgress = new Map<boolean, Promise<Buffer>>() // by isGzip
  private readonly responsesByStatus = new Map([200, 500, 503].map((status) => [status, 0]))
  private collecting: Promise<Family[]> | null = null
  private server: MetricsPort | null = null
  private isClosed = false
  /** The port once it listens; undefined if it cannot. */
  listening: Promise<number | undefined> = Promise.resolve(undefined)

  constructor(options: PrometheusOptions) {
    const { tags, hasNative } = options
    this.options = options
    this.updater = new SeriesUpdater({
      mapper: loadMapper(options),
      tags,
      hasNative,
      nowMs: () => performance.now(),
    })
  }

  get dropped(): number {
    return this.updater.dropped
  }

  start(): void {
    this.listening = this.listen()
  }

  flush(snapshot: Snapshot): Promise<void> {
    return this.updater.apply(snapshot)
  }

  async close(): Promise<void> {
    this.isClosed = true
    await this.listening
    this.server?.close()
  }

  private async listen(): Promise<number | undefined> {
    const { address, path, log } = this.options
    const { host, port } = parseAddress(address)
    const fail = (why: string) =>
      log('error', `Failed to open the Prometheus listener on '${address}': ${why}`)
    if (Number.isNaN(port)) return void fail('not host:port or :port')
    const claimed = await claim(host === '' ? ALL_ADDRESSES : [host], port, fail)
    if (claimed === null || this.isClosed) return undefined
    const scrape = (isGzip: boolean) => this.scrape(isGzip)
    const count = (status: number) =>
      this.responsesByStatus.set(status, this.responsesByStatus.get(status)! + 1)
    const names = ownNames(hostname(), host, ...(this.options.allowedHosts ?? []))
    this.server = new MetricsPort({ ...claimed, path, names, scrape, onResponse: count })
    if (this.server.port === undefined) return void fail('in use, or not an address of this machine')
    const bracketed = host.includes(':') ? `[${host}]` : host
    log('warning', `Listening for Prometheus on '${bracketed}:${this.server.port}'`)
    return this.server.port
  }

  /** The body of a response. Concurrent scrapes with the same coding share it. */
  scrape(isGzip: boolean): Promise<Buffer> {
    let body = this.inProgress.get(isGzip)
    if (body === undefined) {
      body = this.render(isGzip).finally(() => this.inProgress.delete(isGzip))
      this.inProgress.set(isGzip, body)
    }
    return body
  }

  private async render(isGzip: boolean): Promise<Buffer> {
    const processFamilies = await this.collect()
    const bytes = await this.updater.runAlone(() => this.write(processFamilies))
    return isGzip ? promisify(gzip)(bytes, { level: constants.Z_BEST_SPEED }) : bytes
  }

  /** Current totals. Concurrent scrapes share the reading. */
  private collect(): Promise<Family[]> {
    this.collecting ??= this.collectNow().finally(() => {
      this.collecting = null
    })
    return this.collecting
  }

  private async collectNow(): Promise<Family[]> {
    await this.updater.apply(await this.options.read())
    this.updateScrapeSeries()
    return this.readProcess()
  }

  private async write(processFamilies: Family[]): Promise<Buffer> {
    const chunks: Buffer[] = []
    let text = ''
    const families = [...this.updater.table.families.values(), ...processFamilies]
    for (const lines of expose(families, performance.now())) {
      text += lines
      if (text.length < PORTION_CHARS) continue
      chunks.push(Buffer.from(text))
      text = ''
      await nextTurn()
    }
    chunks.push(Buffer.from(text))
    return Buffer.concat(chunks)
  }

  /** The series that the Go client library has about its port. */
  private updateScrapeSeries(): void {
    const { table } = this.updater
    const set = (name: string, type: 'counter' | 'gauge', labels: string, help: string, value: number) => {
      const series = table.single(`promhttp_metric_handler_requests_${name}`, type, labels, help)
      if (!(series instanceof Refusal)) series.value = value
    }
    for (const [status, count] of this.responsesByStatus)
      set('total', 'counter', `{code="${status}"}`, 'Scrapes by status.', count)
    set('in_flight', 'gauge', '', 'Scrapes in progress.', this.server?.inFlight ?? 0)
  }
}

/** An invalid file is logged as an error; then no name is mapped, as in envoyproxy/ratelimit. */
function loadMapper({ mapperFile, isInMilliseconds, log }: PrometheusOptions): Mapper {
  const warn = (line: string) => log('warning', line)
  if (mapperFile === '')
    return parseMapperFile(builtInMapping(isInMilliseconds), 'the built-in mapping', warn)
  try {
    return parseMapperFile(readFileSync(mapperFile, 'utf8'), mapperFile, warn)
  } catch (error) {
    const details =
      error instanceof ConfigurationError ? error.message : `${mapperFile}: ${(error as Error).message}`
    log(
      'error',
      `PROMETHEUS_MAPPER_YAML: ${details} No name is mapped until this is corrected and the service restarted.`,
    )
    return new Mapper([], DEFAULT_OBSERVER)
  }
}

/** Claims the port at the first possible host. Returns null and reports the last reason if none is possible. */
async function claim(hosts: readonly string[], port: number, fail: (why: string) => void) {
  let why = ''
  const onFailure = (error: Error) => {
    why = error.message
  }
  for (const host of hosts) {
    const [claimed] = await claimPorts([{ variable: 'PROMETHEUS_ADDR', host, port, onFailure }])
    if (claimed !== NO_PORT) return { host, port: claimed }
  }
  fail(why)
  return null
}

/** An empty host means all addresses. The port is NaN if the text is not an address. */
function parseAddress(address: string): { host: string; port: number } {
  const [, bracketed, bare, digits] = ADDRESS.exec(address) ?? []
  const port = Number(digits)
  return { host: bracketed ?? bare ?? '', port: port <= 65_535 ? port : Number.NaN }
}
