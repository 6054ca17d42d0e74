/**
 * Rules from a management server, kept current: xDS, state of the world (spec 8.6, 8.5).
 *
 *     stream:  request (current version) ──►
 *                  ◄── response n ────────── the whole configuration
 *              job: decode, validate, compile ──┬──► valid: in force, then ACK      version n, nonce n
 *                                               └──► invalid: NACK, rules unchanged  version of the last ACK, nonce n, error
 *              same response again ──► ACK without a load
 *     lost:    wait ──► reconnect ──► request with version and nonce of the last response, valid or not
 *
 * The connection counts as settled when new rules have come into force or a stream has lasted STEADY_MS. Receiving the current
 * rules again does not count: a server that sends them and then fails to deliver newer ones would hide that failure.
 *
 * Two back-offs, both doubling with jitter up to XDS_CLIENT_BACKOFF_MAX_INTERVAL. Without a connection it starts at
 * CONNECT_WAIT_MS and resets on connection. After a stream has ended it starts at XDS_CLIENT_BACKOFF_INITIAL_INTERVAL and
 * resets when settled, so a server that keeps ending streams is not called without a pause.
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ResponseResult, ResponseTask } from '../../engine/config/response-job.ts'
import { RulesLoader, type RulesSource, type RulesSourceOptions } from '../../engine/config/rules-loader.ts'
import { backoffMs } from '../../engine/runtime/backoff.ts'
import type { LogLevel } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import { errorText } from '../../engine/stores/connect-retry.ts'
import { type ResponseHead, responseResources } from '../../proto/discovery.ts'
import { ConnectionReporter } from './connection-reporter.ts'
import { createEndpoint, type Endpoint } from './endpoint.ts'
import { type Response, UnusableResponse, XdsStream } from './stream.ts'

const TYPE_URL = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'
const CONNECT_WAIT_MS = 1_000 // the first one; less where XDS_CLIENT_BACKOFF_INITIAL_INTERVAL is
const TIMER_MS_MAX = 2 ** 31 - 1 // beyond, Node's timers fire at once
const PAUSE_MS = 100 // between two responses: at most 10 per second are loaded
const STEADY_MS = 30_000 // a server with newer rules sends them at once
const ERROR_LENGTH_MAX = 4_096 // characters of a NACK; a key in it can be as long as a message
const FIRST_RULES_WARNING_MS = 10_000 // then a warning says that no rules have arrived yet

export class XdsRulesSource implements RulesSource {
  private readonly options: RulesSourceOptions
  private readonly endpoint: Endpoint
  private readonly steadyMs: number
  private readonly reporter: ConnectionReporter
  private readonly loader: RulesLoader<ResponseTask, ResponseResult>
  private readonly ending = new AbortController()
  private stream: XdsStream | null = null
  private running: Promise<void> | null = null
  private onFirstLoad: () => void = () => {}
  private received: ResponseHead = { version: '', nonce: '' } // the last one, good or bad
  private acked = this.received // the last good one
  private inForce: string | null = null // its fingerprint
  private failure = '' // what was refused last; '' = it is over
  private streamsLost = 0 // since all was well
  private connectsFailed = 0 // since a connection
  private steadyTimer: NodeJS.Timeout | undefined

  /** Throws ConfigurationError for files and headers that cannot be used. `steadyMs` is for tests. */
  constructor(options: RulesSourceOptions, steadyMs = STEADY_MS) {
    this.options = options
    this.steadyMs = steadyMs
    this.reporter = new ConnectionReporter(options)
    this.endpoint = createEndpoint(options.settings, options.log)
    this.loader = new RulesLoader(
      resolveModule('../../engine/config/response-job.ts', import.meta.url),
      options,
    )
  }

  /** Resolves after the first load, successful or not; an undecodable response is not a load (spec 8.6). Never rejects. */
  start(): Promise<void> {
    const { name } = this.endpoint
    const warningTimer = setTimeout(() => {
      this.options.log('warning', `no rules have come from ${name} yet; still waiting`)
    }, FIRST_RULES_WARNING_MS).unref()
    this.ending.signal.addEventListener('abort', () => clearTimeout(warningTimer))
    this.options.log('info', `Waiting for rules from ${name}`)
    this.running = this.run()
    return new Promise((resolve) => {
      this.onFirstLoad = () => {
        clearTimeout(warningTimer)
        resolve()
      }
    })
  }

  async close(): Promise<void> {
    this.ending.abort()
    clearTimeout(this.steadyTimer)
    this.stream?.close()
    await this.loader.close()
    await this.running
  }

  private get isClosing(): boolean {
    return this.ending.signal.aborted
  }

  private async run(): Promise<void> {
    while (!this.isClosing) {
      const why = await this.follow()
      clearTimeout(this.steadyTimer)
      const wasConnected = this.stream?.isConnected ?? false
      this.stream?.close()
      this.stream = null
      if (this.isClosing) return
      const waitMs = this.waitMs(wasConnected)
      this.reporter.lost(why, waitMs)
      await this.pause(waitMs)
    }
  }

  /** One stream, to its end. Resolves with the reason. */
  private async follow(): Promise<string> {
    try {
      this.stream = new XdsStream({ endpoint: this.endpoint, onConnect: () => this.connected() })
      this.send(this.stream, this.received.version, this.received.nonce)
      for await (const response of this.stream.responses()) {
        await this.take(response, this.stream)
        await this.pause(PAUSE_MS)
      }
      return 'the server ended the stream'
    } catch (error) {
      const why = errorText(error)
      if (error instanceof UnusableResponse) this.refuse(why, 'debug') // the loss is logged with the same text
      return why
    }
  }

  private connected(): void {
    this.connectsFailed = 0
    this.reporter.connected(this.endpoint.name)
    this.watchSteadiness()
  }

  private async take(response: Response, stream: XdsStream): Promise<void> {
    const { version, nonce } = response
    const fingerprint = fingerprintResponse(response)
    this.received = { version, nonce }
    this.reporter.received()
    if (fingerprint !== null && fingerprint === this.inForce) this.watchSteadiness()
    else {
      const error = await this.load(response)
      if (error !== null)
        return this.send(stream, this.acked.version, nonce, error.slice(0, ERROR_LENGTH_MAX))
      this.inForce = fingerprint
      this.failure = ''
      this.settle()
    }
    this.acked = this.received
    this.send(stream, version, nonce)
  }

  /** Resolves with null when the rules are in force, otherwise with the error; then nothing has changed. */
  private async load({ bytes }: Response): Promise<string | null> {
    const { MERGE_DOMAIN_CONFIG: isMerging, STORE_ERROR_POLICY: defaultPolicy } = this.options.settings
    const task = { response: bytes, isMerging, defaultPolicy }
    let isDecoded = true
    let error: string
    try {
      const result = await this.loader.run(task, [bytes.buffer])
      isDecoded = result.isDecoded
      if (result.ok) {
        this.loader.accept(result.image)
        this.onFirstLoad()
        return null
      }
      error = result.error
    } catch (cause) {
      error = errorText(cause)
    }
    this.refuse(error, error === this.failure ? 'debug' : 'error')
    if (isDecoded) this.onFirstLoad()
    return error
  }

  private refuse(error: string, level: LogLevel): void {
    this.loader.refuse(error, level)
    this.failure = error
  }

  /** Restarts the STEADY_MS that the stream must last. */
  private watchSteadiness(): void {
    clearTimeout(this.steadyTimer)
    this.steadyTimer = setTimeout(() => this.steady(), this.steadyMs).unref()
  }

  /**
   * The server has sent nothing since the last request. If that acknowledged the rules in force, an earlier failure is over: the
   * server has returned to them.
   */
  private steady(): void {
    if (this.failure !== '' && this.inForce !== null && this.acked === this.received) {
      this.failure = ''
      this.options.onRecovered?.()
      this.options.log('info', 'the management server has gone back to the rules in force')
    }
    this.settle()
  }

  private settle(): void {
    this.streamsLost = 0
    this.reporter.settled()
  }

  private send(stream: XdsStream, version: string, nonce: string, error: string | null = null): void {
    if (!this.isClosing) stream.send({ version, node: this.endpoint.node, typeUrl: TYPE_URL, nonce, error })
  }

  private waitMs(wasConnected: boolean): number {
    const {
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: initialMs,
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: maxMs,
      XDS_CLIENT_BACKOFF_JITTER: isJittered,
    } = this.options.settings
    const failures = wasConnected ? ++this.streamsLost : ++this.connectsFailed
    const firstMs = wasConnected ? initialMs : Math.min(initialMs, CONNECT_WAIT_MS)
    const ms = backoffMs(failures, { initialMs: firstMs, maxMs }, isJittered ? Math.random : () => 1)
    return Math.min(ms, TIMER_MS_MAX)
  }

  /** Ends early on close. */
  private pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.ending.signal }).catch(() => {})
  }
}

/** Equal for the same version and resources. Null if they cannot be decoded. */
function fingerprintResponse({ version, bytes }: Response): string | null {
  const hash = createHash('sha256').update(`${version.length} ${version}`) // 4 MiB are some 10 ms
  try {
    for (const { typeUrl, value } of responseResources(bytes)) {
      hash.update(` ${typeUrl.length} ${typeUrl} ${value.length} `).update(value)
    }
  } catch {
    return null
  }
  return hash.digest('base64')
}
