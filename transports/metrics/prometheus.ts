/**
 * Statistics for Prometheus (spec 6.6, 7.6): a port that tells all series.
 *
 *     scrape ─► read totals ─► add what grew ─► write out ─► (gzip)        two at once share all of it
 *     flush  ─────────────────► add what grew                             so quantiles move without scrapes, too
 *
 * The reference adds counters at its flushes, so a scrape there is up to STATS_FLUSH_INTERVAL late; here it is fresh.
 * Read prometheus/series.ts for why the series are our own. A port that cannot be had is an error in the log, and the
 * service goes on.
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
import { expose, type Format } from './prometheus/exposition.ts'
import { Mapper } from './prometheus/mapper.ts'
import { DEFAULT_OBSERVER, parseMapperFile } from './prometheus/mapper-file.ts'
import { measureProcess } from './prometheus/process-series.ts'
import { type Family, Refusal } from './prometheus/series.ts'
import { SeriesUpdater } from './prometheus/series-updater.ts'
import { MetricsPort } from './prometheus/server.ts'
import type { Sink, Snapshot } from './sink.ts'
import type { Tags } from './tags.ts'

const PORTION_CHARS = 256 * 1024 // of text before others get a turn
const ANYWHERE = ['::', '0.0.0.0'] // the first is both, where the machine has IPv6 at all
const ADDRESS = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/

export interface PrometheusOptions {
  address: string // PROMETHEUS_ADDR, as `:9090`
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
  private readonly intake: SeriesUpdater
  private readonly readProcess = measureProcess()
  private readonly underWay = new Map<string, Promise<Buffer>>() // by format and coding
  private readonly answers = new Map([200, 500, 503].map((status) => [status, 0]))
  private collecting: Promise<Family[]> | null = null
  private server: MetricsPort | null = null
  private isClosed = false
  /** The port, once it listens; undefined where it cannot. */
  listening: Promise<number | undefined> = Promise.resolve(undefined)

  constructor(options: PrometheusOptions) {
    const { tags, hasNative } = options
    this.options = options
    this.intake = new SeriesUpdater({ mapper: loadMapper(options), tags, hasNative, nowMs: Date.now })
  }

  get dropped(): number {
    return this.intake.dropped
  }

  start(): void {
    this.listening = this.listen()
  }

  flush(snapshot: Snapshot): Promise<void> {
    return this.intake.take(snapshot)
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
    if (Number.isNaN(port)) return void fail('host:port is needed, or :port')
    const claimed = await claim(host === '' ? ANYWHERE : [host], port, fail)
    if (claimed === null || this.isClosed) return undefined
    const scrape = (format: Format, isGzip: boolean) => this.scrape(format, isGzip)
    const count = (status: number) => this.answers.set(status, this.answers.get(status)! + 1)
    const names = ownNames(hostname(), host, ...(this.options.allowedHosts ?? []))
    this.server = new MetricsPort({ ...claimed, path, names, scrape, onAnswer: count })
    if (this.server.port === undefined) return void fail('in use, or no address of this machine')
    const bracketed = host.includes(':') ? `[${host}]` : host
    log('warning', `Listening for Prometheus on '${bracketed}:${this.server.port}'`)
    return this.server.port
  }

  /** The bytes of an answer, made once for all who ask for the same at the same time. */
  scrape(format: Format, isGzip: boolean): Promise<Buffer> {
    const key = `${format} ${isGzip}`
    let body = this.underWay.get(key)
    if (body === undefined) {
      body = this.render(format, isGzip).finally(() => this.underWay.delete(key))
      this.underWay.set(key, body)
    }
    return body
  }

  private async render(format: Format, isGzip: boolean): Promise<Buffer> {
    const processFamilies = await this.collect()
    const bytes = await this.intake.alone(() => this.write(format, processFamilies))
    return isGzip ? promisify(gzip)(bytes, { level: constants.Z_BEST_SPEED }) : bytes
  }

  /** Fresh totals, once for all formats asked for at the same time. */
  private collect(): Promise<Family[]> {
    this.collecting ??= this.collectNow().finally(() => {
      this.collecting = null
    })
    return this.collecting
  }

  private async collectNow(): Promise<Family[]> {
    await this.intake.take(await this.options.read())
    this.completeScrapes()
    return this.readProcess()
  }

  private async write(format: Format, processFamilies: Family[]): Promise<Buffer> {
    const chunks: Buffer[] = []
    let text = ''
    const families = [...this.intake.table.families.values(), ...processFamilies]
    for (const lines of expose(families, format, Date.now())) {
      text += lines
      if (text.length < PORTION_CHARS) continue
      chunks.push(Buffer.from(text))
      text = ''
      await nextTurn()
    }
    chunks.push(Buffer.from(text))
    return Buffer.concat(chunks)
  }

  /** What the Go client library tells of its own port. */
  private completeScrapes(): void {
    const { table } = this.intake
    const set = (name: string, type: 'counter' | 'gauge', labels: string, help: string, value: number) => {
      const series = table.single(`promhttp_metric_handler_requests_${name}`, type, labels, help)
      if (!(series instanceof Refusal)) series.value = value
    }
    for (const [status, count] of this.answers)
      set('total', 'counter', `{code="${status}"}`, 'Scrapes by status.', count)
    set('in_flight', 'gauge', '', 'Scrapes under way.', this.server?.inFlight ?? 0)
  }
}

/** A file that cannot be used is an error in the log; then nothing is mapped, as in the reference. */
function loadMapper({ mapperFile, isInMilliseconds, log }: PrometheusOptions): Mapper {
  const warn = (line: string) => log('warning', line)
  if (mapperFile === '')
    return parseMapperFile(builtInMapping(isInMilliseconds), 'the built-in mapping', warn, true)
  try {
    return parseMapperFile(readFileSync(mapperFile, 'utf8'), mapperFile, warn)
  } catch (error) {
    const details =
      error instanceof ConfigurationError ? error.message : `${mapperFile}: ${(error as Error).message}`
    log(
      'error',
      `PROMETHEUS_MAPPER_YAML: ${details} No name is mapped until this is mended and the service restarted.`,
    )
    return new Mapper([], DEFAULT_OBSERVER)
  }
}

/** The first of the hosts where the port can be had; null, and the last reason told, when at none. */
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

/** Without a host, all addresses. The port is NaN where the text is no address. */
function parseAddress(address: string): { host: string; port: number } {
  const [, bracketed, bare, digits] = ADDRESS.exec(address) ?? []
  const port = Number(digits)
  return { host: bracketed ?? bare ?? '', port: port <= 65_535 ? port : Number.NaN }
}
