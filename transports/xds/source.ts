/**
 * Rules from a management server, kept current: xDS, state of the world (spec 8.6, 8.5).
 *
 *     stream:  request (what we have) ──►
 *                  ◄── response n ─────── the whole configuration
 *              job: decode, validate, compile ──┬──► good: into force, then ACK   version n, nonce n
 *                                               └──► bad: what is in force stays, NACK   version of the last ACK, nonce n, why
 *     lost:    wait ──► connect anew ──► request with version and nonce of the last response, good or bad
 *
 * Two kinds of waiting, both doubling with jitter up to XDS_CLIENT_BACKOFF_MAX_INTERVAL. Where there is no connection:
 * from CONNECT_WAIT_MS, until there is one. Where a stream ends: from XDS_CLIENT_BACKOFF_INITIAL_INTERVAL, until a good
 * response; so a server that takes us in and throws us out is not asked without a pause.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ResponseResult, ResponseTask } from '../../engine/config/response-job.ts'
import { backoffMs, errorText, goDuration } from '../../engine/counters/retry.ts'
import { RulesLoader, type RulesSource, type RulesSourceOptions } from '../../engine/rules-loader.ts'
import { sourceUrl } from '../../engine/source-url.ts'
import type { ResponseHead } from '../../proto/discovery.ts'
import { type Endpoint, endpointOf } from './endpoint.ts'
import { type Response, XdsStream } from './stream.ts'

const TYPE_URL = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'
const CONNECT_WAIT_MS = 1_000 // the first one; less where XDS_CLIENT_BACKOFF_INITIAL_INTERVAL is
const TIMER_MS_MAX = 2 ** 31 - 1 // beyond, Node's timers fire at once
const PAUSE_MS = 100 // between two responses: a server that answers each ACK with the same again is taken 10 times a second
const ERROR_LENGTH_MAX = 4_096 // characters of a NACK; a key in it can be as long as a message
const PATIENCE_MS = 10_000 // then the operator reads that nothing has come yet

export class XdsRulesSource implements RulesSource {
  private readonly options: RulesSourceOptions
  private readonly endpoint: Endpoint
  private readonly loader: RulesLoader<ResponseTask, ResponseResult>
  private readonly ending = new AbortController()
  private stream: XdsStream | null = null
  private running: Promise<void> | null = null
  private onFirstLoad: () => void = () => {}
  private received: ResponseHead = { version: '', nonce: '' } // the last one, good or bad
  private ackedVersion = ''
  private streamsLost = 0 // since a good response
  private connectsFailed = 0 // since a connection
  private toldLoss = '' // since a connection
  private toldError = '' // since a good response

  /** Throws OperatorError for files and headers that cannot be used. */
  constructor(options: RulesSourceOptions) {
    this.options = options
    this.endpoint = endpointOf(options.settings, options.log)
    this.loader = new RulesLoader(sourceUrl('../../engine/config/response-job.ts', import.meta.url), options)
  }

  /** Resolves after the first load, good or bad; a response that cannot be decoded is none (spec 8.6). Never rejects. */
  start(): Promise<void> {
    const { name } = this.endpoint
    const impatient = setTimeout(() => {
      this.options.log('warning', `no rules have come from ${name} yet; still waiting`)
    }, PATIENCE_MS).unref()
    this.ending.signal.addEventListener('abort', () => clearTimeout(impatient))
    this.options.log('info', `Waiting for rules from ${name}`)
    this.running = this.run()
    return new Promise((resolve) => {
      this.onFirstLoad = () => {
        clearTimeout(impatient)
        resolve()
      }
    })
  }

  async close(): Promise<void> {
    this.ending.abort()
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
      const wasConnected = this.stream?.isConnected ?? false
      this.stream?.close()
      this.stream = null
      if (this.isClosing) return
      const waitMs = this.waitMs(wasConnected)
      const line = `Failed to receive configuration from xDS Management Server: ${why}`
      this.options.log(why === this.toldLoss ? 'debug' : 'error', `${line}; again in ${goDuration(waitMs)}`)
      this.toldLoss = why
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
      return errorText(error)
    }
  }

  private connected(): void {
    this.connectsFailed = 0
    this.toldLoss = ''
    this.options.log('info', `connected to ${this.endpoint.name} for rules`)
  }

  private async take(response: Response, stream: XdsStream): Promise<void> {
    const { version, nonce } = response
    this.received = { version, nonce }
    const error = await this.load(response)
    if (error !== null) return this.send(stream, this.ackedVersion, nonce, error.slice(0, ERROR_LENGTH_MAX))
    this.ackedVersion = version
    this.streamsLost = 0
    this.send(stream, version, nonce)
  }

  /** Resolves with null when its rules are in force, else with what is wrong; then everything stays as it is. */
  private async load({ bytes }: Response): Promise<string | null> {
    const task = { response: bytes, isMerging: this.options.settings.MERGE_DOMAIN_CONFIG }
    let isDecoded = true
    let error: string
    try {
      const result = await this.loader.run(task, [bytes.buffer])
      isDecoded = result.isDecoded
      if (result.ok) {
        this.loader.accept(result.image)
        this.toldError = ''
        this.onFirstLoad()
        return null
      }
      error = result.error
    } catch (cause) {
      error = errorText(cause)
    }
    this.loader.refuse(error, error === this.toldError ? 'debug' : 'error')
    this.toldError = error
    if (isDecoded) this.onFirstLoad()
    return error
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

  /** Ends early when closing. */
  private pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.ending.signal }).catch(() => {})
  }
}
