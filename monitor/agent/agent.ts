/**
 * An agent at work: asks its server what to probe, probes, and hands over what it found (spec 6.5).
 *
 *     every 10 s ─► poll ─► sites, opt-outs, who else is online ─► prober ─► results ─► buffer, on disk
 *                    └► send: 500 at a time, ten times at most ◄────────────────────────┘
 *
 *     server away       ─► probes on with what it knows, keeps a day of results, asks again after 10, 20, 40, 60 s
 *     token not taken   ─► stops probing, keeps its results, goes on asking
 *     token shared      ─► its results are numbered and sent again, so whoever stole a token destroys nothing here
 *     a day without it  ─► stops probing: nobody would take the results, and hosts may have opted out since
 *
 * Results are numbered as they leave, from the last number the server has accepted. Of what was sent nothing is forgotten
 * unless the server has accepted exactly that: any other number means that somebody else reports with this token. A result
 * sent twice is harmless, since the server keeps one per site, vantage and second.
 *
 * Calls out only; needs no open port. One call at a time. What is found of models, software and certificates stays with
 * the server's own full probes: such facts are stored without a vantage's name, so no token of an agent may write them.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../../engine/runtime/messages.ts'
import { check, type Schema } from '../api/schema/json-schema.ts'
import { type AgentClient, agentClientFailure } from '../egress/agent-client.ts'
import type { Probe } from '../facts.ts'
import type { FromProber, ProberSite } from '../prober/messages.ts'
import { Prober, type ProberOptions } from '../prober/prober.ts'
import { getSlotNumber, inTurn } from '../scheduler/vantage-rotation.ts'
import { addressToKeep } from '../scoring/blocking.ts'
import type { BufferedResult, ResultBuffer } from './buffer.ts'
import type { CatalogueContent, PollRequest, PollResponse, ResultsRequest, ResultsResponse } from './wire.ts'
import {
  hashContent,
  KEPT_SEC,
  POLL_MS,
  POLL_PATH,
  POLL_RESPONSE,
  RESULTS_MAX,
  RESULTS_PATH,
  RESULTS_RESPONSE,
} from './wire.ts'

const BATCHES_MAX = 10 // per round: a day of 1,000 sites is handed over in ten minutes
const PAUSE_MAX_MS = 60_000 // between polls while they fail; as long as a vantage counts as online
const RETRY_AFTER_MAX_MS = 600_000
const PAUSE_JITTER = 0.2 // of the pause, less or more: agents of one server do not come back at once
const SKEW_LOGGED_MS = 60_000
const REFUSED_WHOLE: readonly number[] = [400, 413] // statuses for which a part of the batch may be to blame
const REFUSED_ROWS_MAX = 10 // passed over in one round; beyond, the server is asked again after the pause

export interface AgentOptions {
  client: Pick<AgentClient, 'post' | 'base'>
  buffer: ResultBuffer
  probing: Pick<ProberOptions, 'context' | 'egress' | 'lightMax' | 'repeatsMax' | 'controlUrls'>
  nowMs: () => number
  log: Log
}

/** Since the start. */
export interface AgentMetrics {
  waiting: number // results in the buffer
  dropped: number
  lost: number // the disk did not take them
  sent: number
  refused: number
}

export class Agent {
  private readonly options: AgentOptions
  private readonly prober: Prober
  private readonly closing = new AbortController()
  private working: Promise<void> = Promise.resolve()
  private vantage = ''
  private online: string[] = []
  private aheadMs = 0 // of the server's clock; negative: ours is ahead
  private polledMs = 0 // the last that was answered
  private accepted = 0 // by the server, as of its last answer
  private highestSent: number | null = null // null until the first poll
  private unanswered: { accepted: number; row: number } | null = null // what the server says when it has taken it all the same
  private batchMax = RESULTS_MAX // of one request; halved while requests are refused as a whole
  private refusedRow = 0 // up to here rows are passed over
  private failuresCount = 0 // in a row
  private complaint = '' // told last; the same is not told again
  private hash: string | null = null
  private content: CatalogueContent = { sites: [], opt_out: [] }
  private intervalSec = 0
  private sites = new Map<string, ProberSite>() // by slug
  private slugs = new Map<number, string>() // by the id that the prober knows a site by
  private lastId = 0
  private isProbing = false
  private isSkewLogged = false
  private isSharedTold = false
  private totals = { sent: 0, refused: 0, lost: 0 }

  constructor(options: AgentOptions) {
    this.options = options
    this.prober = new Prober({
      ...options.probing,
      ...{ region: 'overseas', vantage: '', isSingleVantage: false, detectionsMax: 1 }, // of detections; an agent has none
      intervalSec: 0, // each site is given its own
      planner: { isTurn: (slug, dueMs) => this.isTurn(slug, dueMs), fullMax: 0 },
      send: (message) => this.hear(message),
    })
  }

  start(): void {
    this.working = this.work()
  }

  /** Resolves when nothing runs any more. What is not handed over is in the buffer. */
  async close(): Promise<void> {
    this.closing.abort()
    await Promise.all([this.working, this.prober.close()])
    this.options.buffer.close()
  }

  metrics(): AgentMetrics {
    const { count, droppedCount } = this.options.buffer
    return { ...this.totals, waiting: count, dropped: droppedCount }
  }

  /** One poll and what follows from it. Never rejects; says how long to wait for the next. */
  async round(): Promise<number> {
    const { nowMs, log, client: home, buffer } = this.options
    try {
      buffer.forgetBefore(Math.floor(nowMs() / 1_000) - KEPT_SEC)
      await this.poll()
      await this.sendInParts()
      if (this.failuresCount > 0) log('info', `${home.base.host} answers again`)
      this.failuresCount = 0
      this.complaint = ''
      return POLL_MS
    } catch (error) {
      return this.failed(error)
    }
  }

  private async work(): Promise<void> {
    const { signal } = this.closing
    while (!signal.aborted) {
      const pauseMs = await this.round()
      await wait(pauseMs, undefined, { signal }).catch(() => {}) // closing
    }
  }

  private async poll(): Promise<void> {
    const { nowMs, buffer } = this.options
    const sentMs = nowMs()
    const request: PollRequest = { catalogue: this.hash, clock_ms: Math.floor(sentMs) }
    const answer = (await this.call(POLL_PATH, request, POLL_RESPONSE)) as PollResponse
    this.polledMs = nowMs()
    this.aheadMs = answer.clock_ms - (sentMs + this.polledMs) / 2
    this.logSkew()
    if (answer.accepted === this.unanswered?.accepted) buffer.forget(this.unanswered.row)
    this.unanswered = null
    this.noteAccepted(answer.accepted)
    this.vantage = answer.vantage
    this.online = answer.online
    const content = selectContent(answer, this.hash, this.content)
    const isSame = this.isProbing && answer.catalogue === this.hash && answer.interval_s === this.intervalSec
    this.hash = answer.catalogue
    this.content = content
    this.intervalSec = answer.interval_s
    if (!isSame) this.assign(content)
  }

  /** What the prober is to look at from now on. Ids are never used twice, so a late result finds its own site or none. */
  private assign({ sites, opt_out: optOut }: CatalogueContent): void {
    this.isProbing = true
    const known = this.sites
    const next = sites.map(
      ({ slug, url, api_base: apiBase, extra_port: extraPort, interval_s }): ProberSite => {
        const siteId = known.get(slug)?.siteId ?? ++this.lastId
        const unknown = { keyFile: null, lastFullSec: null, addresses: [], downs: 0, downSinceSec: null }
        return {
          siteId,
          slug,
          url,
          apiBase,
          extraPort,
          intervalSec: interval_s ?? this.intervalSec,
          ...unknown,
        }
      },
    )
    this.sites = new Map(next.map((site) => [site.slug, site]))
    this.slugs = new Map(next.map(({ siteId, slug }) => [siteId, slug]))
    this.prober.receive({ kind: 'sites', sites: next, optOut })
  }

  private rest(): void {
    if (!this.isProbing) return
    this.assign({ sites: [], opt_out: this.content.opt_out })
    this.isProbing = false
  }

  private async send(): Promise<void> {
    const { buffer, log, nowMs } = this.options
    for (let batch = 0; batch < BATCHES_MAX && !this.closing.signal.aborted; batch++) {
      const buffered = this.nextBatch()
      if (buffered.length === 0) return
      const results = buffered.map(({ measured }, i) => ({ ...measured, sequence: this.accepted + 1 + i }))
      const sent = { accepted: this.accepted + results.length, row: buffered[buffered.length - 1].row }
      const request: ResultsRequest = { clock_ms: Math.floor(nowMs()), results }
      this.highestSent = Math.max(this.highestSent ?? 0, sent.accepted)
      this.unanswered = sent
      const answer = (await this.call(RESULTS_PATH, request, RESULTS_RESPONSE)) as ResultsResponse
      const { accepted, stored, repeated, refused, refusals } = answer
      this.unanswered = null
      this.noteAccepted(accepted)
      // A server that takes nothing would be asked for ever.
      if (accepted < sent.accepted) throw new CallError(200, 'results were answered, and not all accepted')
      if (repeated > 0 || accepted > sent.accepted) continue // taken for those of another: once more, with new numbers
      buffer.forget(sent.row)
      this.totals.sent += stored
      this.totals.refused += refused
      if (refused > 0)
        log('warning', `${refused} results were refused, the first for this reason: ${refusals[0]?.reason}`)
    }
  }

  /**
   * A batch that is refused as a whole goes again in halves, and a result that is refused by itself is passed over, so
   * that it cannot hold up the others. It is dropped once a later one is taken: where none is, it is not to blame.
   */
  private async sendInParts(): Promise<void> {
    const { buffer, log } = this.options
    this.batchMax = RESULTS_MAX
    this.refusedRow = 0
    const refusedRows: number[] = []
    let failure: unknown = null
    do {
      try {
        failure = null
        await this.send()
      } catch (error) {
        if (!(error instanceof CallError) || !REFUSED_WHOLE.includes(error.status)) throw error
        failure = error
        const [first] = this.nextBatch()
        if (first === undefined) throw error
        if (this.batchMax > 1) this.batchMax = Math.ceil(Math.min(this.batchMax, buffer.count) / 2)
        else {
          this.refusedRow = first.row
          refusedRows.push(first.row)
        }
        if (refusedRows.length > 0 && this.nextBatch().length === 0) break
      }
    } while (failure !== null && refusedRows.length < REFUSED_ROWS_MAX)
    const keptRow = buffer.first(1)[0]?.row ?? Number.POSITIVE_INFINITY
    const droppedCount = refusedRows.filter((row) => row < keptRow).length
    this.totals.refused += droppedCount
    if (droppedCount > 0) log('warning', `${droppedCount} results were refused by themselves and are dropped`)
    if (failure !== null) throw failure
  }

  private nextBatch(): BufferedResult[] {
    const buffered = this.options.buffer.first(this.batchMax + REFUSED_ROWS_MAX)
    return buffered.filter(({ row }) => row > this.refusedRow).slice(0, this.batchMax)
  }

  private noteAccepted(accepted: number): void {
    const { log, client: home } = this.options
    this.accepted = accepted
    this.highestSent ??= accepted
    if (accepted <= this.highestSent) return
    this.highestSent = accepted
    if (this.isSharedTold) return
    this.isSharedTold = true
    const fix =
      'If no second agent was started with it, revoke it there and create a new one (monitor vantage)'
    log('error', `${home.base.host}: somebody else reports with the token of this agent. ${fix}.`)
  }

  private async call(path: string, request: object, schema: Schema): Promise<unknown> {
    const { status, json, retryAfterSec } = await this.options.client.post(path, request, this.closing.signal)
    if (status !== 200) throw new CallError(status, `${path} was answered with ${status}`, retryAfterSec)
    const complaint = check(schema, json, {})
    if (complaint !== null) throw new CallError(status, `${path} was answered wrongly: ${complaint}`)
    return json
  }

  private failed(error: unknown): number {
    const { nowMs } = this.options
    if (this.closing.signal.aborted) return 0
    this.failuresCount++
    const { status, retryAfterSec } = error instanceof CallError ? error : { status: null, retryAfterSec: 0 }
    if (status === 401 || nowMs() - this.polledMs > KEPT_SEC * 1_000) this.rest()
    this.logState(error instanceof CallError ? error.message : agentClientFailure(error), status === 401)
    const pauseMs = Math.min(PAUSE_MAX_MS, POLL_MS * 2 ** Math.min(this.failuresCount - 1, 10))
    const jitter = 1 + (2 * Math.random() - 1) * PAUSE_JITTER
    return Math.max(pauseMs * jitter, Math.min(RETRY_AFTER_MAX_MS, retryAfterSec * 1_000))
  }

  private logState(complaint: string, isRefused: boolean): void {
    if (complaint === this.complaint) return
    this.complaint = complaint
    const then = isRefused
      ? 'Nothing is probed until its token is taken'
      : 'Results are kept, at most for a day'
    const { log, client: home } = this.options
    log(isRefused ? 'error' : 'warning', `${home.base.host}: ${complaint}. ${then}; asking on.`)
  }

  private hear(message: FromProber): void {
    if (message.kind === 'probe') this.keep(message.siteId, message.probe)
    else if (message.kind === 'log') this.options.log(message.level, message.text)
  }

  private keep(siteId: number, probe: Probe): void {
    const { atSec, outcome, error, httpStatus, timings } = probe
    const slug = this.slugs.get(siteId)
    if (slug === undefined) return // not ours to probe any more
    const { dnsMs, connectMs, tlsMs, ttfbMs, totalMs } = timings
    const address = addressToKeep(probe)
    try {
      this.options.buffer.add({
        ...{ slug, at_s: atSec, outcome, error, http_status: httpStatus },
        ...{ dns_ms: dnsMs, connect_ms: connectMs, tls_ms: tlsMs, ttfb_ms: ttfbMs, total_ms: totalMs },
        ...(address !== null && { address }),
      })
    } catch (failure) {
      if (this.totals.lost === 0)
        this.options.log('error', `results cannot be kept and are lost: ${(failure as Error).message}`)
      this.totals.lost++
    }
  }

  /** By the server's clock, so that all vantages count the same slots. */
  private isTurn(slug: string, dueMs: number): boolean {
    const intervalSec = this.sites.get(slug)?.intervalSec
    if (!intervalSec) return false
    const atMs = this.options.nowMs() + this.aheadMs + dueMs - performance.now()
    return inTurn(slug, getSlotNumber(atMs / 1_000, intervalSec), this.online).includes(this.vantage)
  }

  private logSkew(): void {
    const isSkewed = Math.abs(this.aheadMs) > SKEW_LOGGED_MS
    if (isSkewed && !this.isSkewLogged) {
      const seconds = Math.round(Math.abs(this.aheadMs) / 1_000)
      const text = `this clock is ${seconds} s ${this.aheadMs < 0 ? 'ahead of' : 'behind'} the server's, which corrects it`
      this.options.log('warning', text)
    }
    this.isSkewLogged = isSkewed
  }
}

/** An answer that is none of use. */
class CallError extends Error {
  override name = 'CallError'
  readonly status: number
  readonly retryAfterSec: number

  constructor(status: number, text: string, retryAfterSec = 0) {
    super(text)
    this.status = status
    this.retryAfterSec = retryAfterSec
  }
}

/** The catalogue check of spec 6.5: what is probed is what the server's hash is of. */
function selectContent(
  answer: PollResponse,
  knownHash: string | null,
  known: CatalogueContent,
): CatalogueContent {
  const { catalogue, content } = answer
  if (content === null && catalogue === knownHash) return known
  if (content !== null && hashContent(content) === catalogue) return content
  throw new CallError(200, 'the catalogue that came is not the one its hash is of')
}
