/**
 * An agent: polls its server for sites to probe, probes them, and sends the results (spec 6.5).
 *
 *     every 10 s ─► poll ─► sites, opt-outs, vantages online ─► prober ─► results ─► buffer, on disk
 *                    └► send: 500 at a time, ten times at most ◄────────────────────────┘
 *
 *     server unreachable     probes on with the last catalogue, keeps a day of results, polls again after 10, 20, 40, 60 s
 *     token refused          stops probing, keeps its results, keeps polling
 *     no response for a day    stops probing: the results would be too old to store, and hosts may have opted out since
 *
 * Results are numbered as they are sent, from the last number the server has accepted. A batch is forgotten only when the
 * response to it says that exactly its last number is accepted and that no result was a repetition. Otherwise it is sent
 * again: a holder of a stolen token can use up numbers, but cannot make this agent drop a result. Sending twice is
 * harmless, since the server stores one result per site, vantage and second.
 *
 * Opens no port, makes one call at a time. An agent reports light probes only: models, software and certificates are
 * stored without a vantage, so the server takes them from its own full probes.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { doublingMs, jitteredMs } from '../../engine/runtime/backoff.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { check, type Schema } from '../api/schema/json-schema.ts'
import { type AgentClient, agentClientFailure } from '../egress/agent-client.ts'
import type { Probe } from '../facts.ts'
import type { FromProber, ProberSite } from '../prober/messages.ts'
import { Prober, type ProberOptions } from '../prober/prober.ts'
import { getSlotNumber, inTurn } from '../scheduler/schedule.ts'
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

const BATCHES_MAX = 10 // per round: the results of a day of 1,000 sites are sent within ten minutes
const POLL_BACKOFF = { initialMs: POLL_MS, maxMs: 60_000 } // while polls fail; a vantage counts as online for as long
const RETRY_AFTER_MAX_MS = 600_000
const PAUSE_JITTER = 0.2 // fraction of the pause, so that the agents of one server do not return at the same time
const SKEW_LOGGED_MS = 60_000
const REFUSED_WHOLE: readonly number[] = [400, 413] // statuses that a part of the batch may cause
const REFUSED_ROWS_MAX = 10 // skipped in one round; beyond, the rest waits for the next round

export interface AgentOptions {
  client: Pick<AgentClient, 'post' | 'base'>
  buffer: ResultBuffer
  probing: Pick<ProberOptions, 'context' | 'egress' | 'lightMax' | 'repeatsMax' | 'connectivityUrls'>
  nowMs: () => number
  log: Log
}

/** Since the start. */
export interface AgentMetrics {
  waiting: number // results in the buffer
  dropped: number
  lost: number // not written: the disk refused
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
  private serverAheadMs = 0 // server's clock minus this one
  private polledMs = 0 // time of the last successful poll
  private accepted = 0 // highest sequence number accepted by the server, as of its last response
  private highestSent: number | null = null // null until the first poll
  private batchMax = RESULTS_MAX // results per request; halved while requests are refused as a whole
  private refusedRow = 0 // rows up to this one are skipped
  private failuresCount = 0 // in a row
  private loggedFailure = '' // the last one; a repetition is not logged
  private hash: string | null = null
  private content: CatalogueContent = { sites: [], opt_out: [] }
  private intervalSec = 0
  private sites = new Map<string, ProberSite>() // by slug
  private slugs = new Map<number, string>() // by the prober's site id
  private lastId = 0
  private isProbing = false
  private isSkewLogged = false
  private isSharedTokenLogged = false
  private totals = { sent: 0, refused: 0, lost: 0 }

  constructor(options: AgentOptions) {
    this.options = options
    this.prober = new Prober({
      ...options.probing,
      ...{ region: 'overseas', vantage: '', isSingleVantage: false, detectionsMax: 1 }, // of detections; an agent has none
      intervalSec: 0, // each site has its own
      planner: { isTurn: (slug, dueMs) => this.isTurn(slug, dueMs), fullMax: 0 },
      send: (message) => this.onProberMessage(message),
    })
  }

  start(): void {
    this.working = this.work()
  }

  /** Resolves when nothing runs. Results that were not sent stay in the buffer. */
  async close(): Promise<void> {
    this.closing.abort()
    await Promise.all([this.working, this.prober.close()])
    this.options.buffer.close()
  }

  metrics(): AgentMetrics {
    const { count, droppedCount } = this.options.buffer
    return { ...this.totals, waiting: count, dropped: droppedCount }
  }

  /** Polls, then sends what is buffered. Never rejects. Returns the milliseconds to wait before the next round. */
  async round(): Promise<number> {
    const { nowMs, log, client, buffer } = this.options
    try {
      buffer.forgetBefore(Math.floor(nowMs() / 1_000) - KEPT_SEC)
      await this.poll()
      await this.sendInParts()
      if (this.failuresCount > 0) log('info', `${client.base.host} responds again`)
      this.failuresCount = 0
      this.loggedFailure = ''
      return POLL_MS
    } catch (error) {
      return this.onFailure(error)
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
    const { nowMs } = this.options
    const sentMs = nowMs()
    const request: PollRequest = { catalogue: this.hash, clock_ms: Math.floor(sentMs) }
    const response = (await this.call(POLL_PATH, request, POLL_RESPONSE)) as PollResponse
    this.polledMs = nowMs()
    this.serverAheadMs = response.clock_ms - (sentMs + this.polledMs) / 2
    this.logSkew()
    this.recordAccepted(response.accepted)
    this.vantage = response.vantage
    this.online = response.online
    const content = selectContent(response, this.hash, this.content)
    const isSame =
      this.isProbing && response.catalogue === this.hash && response.interval_s === this.intervalSec
    this.hash = response.catalogue
    this.content = content
    this.intervalSec = response.interval_s
    if (!isSame) this.assign(content)
  }

  /** Replaces the sites of the prober. Ids are never reused, so a late result belongs to its own site or to none. */
  private assign({ sites, opt_out: optOut }: CatalogueContent): void {
    this.isProbing = true
    const known = this.sites
    const next = sites.map(
      ({ slug, url, api_base: apiBase, extra_port: extraPort, interval_s }): ProberSite => {
        const siteId = known.get(slug)?.siteId ?? ++this.lastId
        const absent = { keyFile: null, lastFullSec: null, addresses: [], downs: 0, downSinceSec: null }
        return {
          siteId,
          slug,
          url,
          apiBase,
          extraPort,
          intervalSec: interval_s ?? this.intervalSec,
          ...absent,
        }
      },
    )
    this.sites = new Map(next.map((site) => [site.slug, site]))
    this.slugs = new Map(next.map(({ siteId, slug }) => [siteId, slug]))
    this.prober.receive({ kind: 'sites', sites: next, optOut })
  }

  private stopProbing(): void {
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
      const response = (await this.call(RESULTS_PATH, request, RESULTS_RESPONSE)) as ResultsResponse
      const { accepted, stored, repeated, refused, refusals } = response
      this.recordAccepted(accepted)
      // Ends the round: a server that accepts nothing would be sent the same batch without end.
      if (accepted < sent.accepted) throw new CallError(200, 'the server accepted only a part of the results')
      if (repeated > 0 || accepted > sent.accepted) continue // another client used these numbers: again, with new ones
      buffer.forget(sent.row)
      this.totals.sent += stored
      this.totals.refused += refused
      if (refused > 0)
        log('warning', `${refused} results were refused, the first for this reason: ${refusals[0]?.reason}`)
    }
  }

  /**
   * A batch that is refused as a whole is sent again in halves, and a result that is refused by itself is skipped, so
   * that it does not block the others. It is dropped once a later one is accepted; if none is, the cause is another.
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

  private recordAccepted(accepted: number): void {
    const { log, client } = this.options
    this.accepted = accepted
    this.highestSent ??= accepted
    if (accepted <= this.highestSent) return
    this.highestSent = accepted
    if (this.isSharedTokenLogged) return
    this.isSharedTokenLogged = true
    const fix = 'Unless a second agent was started with it, revoke it and create a new one (monitor vantage)'
    log('error', `${client.base.host}: another client sends results with the token of this agent. ${fix}.`)
  }

  private async call(path: string, request: object, schema: Schema): Promise<unknown> {
    const { status, json, retryAfterSec } = await this.options.client.post(path, request, this.closing.signal)
    if (status !== 200) throw new CallError(status, `${path}: status ${status}`, retryAfterSec)
    const violation = check(schema, json, {})
    if (violation !== null) throw new CallError(status, `${path}: invalid response: ${violation}`)
    return json
  }

  private onFailure(error: unknown): number {
    const { nowMs } = this.options
    if (this.closing.signal.aborted) return 0
    this.failuresCount++
    const { status, retryAfterSec } = error instanceof CallError ? error : { status: null, retryAfterSec: 0 }
    if (status === 401 || nowMs() - this.polledMs > KEPT_SEC * 1_000) this.stopProbing()
    this.logState(error instanceof CallError ? error.message : agentClientFailure(error), status === 401)
    const pauseMs = jitteredMs(doublingMs(this.failuresCount, POLL_BACKOFF), PAUSE_JITTER, Math.random)
    return Math.max(pauseMs, Math.min(RETRY_AFTER_MAX_MS, retryAfterSec * 1_000))
  }

  private logState(failure: string, isTokenRefused: boolean): void {
    if (failure === this.loggedFailure) return
    this.loggedFailure = failure
    const { log, client } = this.options
    const effect = isTokenRefused
      ? 'Probing stops until the token is accepted; results are kept'
      : 'Results are kept for up to a day'
    log(isTokenRefused ? 'error' : 'warning', `${client.base.host}: ${failure}. ${effect}; polling goes on.`)
  }

  private onProberMessage(message: FromProber): void {
    if (message.kind === 'probe') this.bufferResult(message.siteId, message.probe)
    else if (message.kind === 'log') this.options.log(message.level, message.text)
  }

  private bufferResult(siteId: number, probe: Probe): void {
    const { atSec, outcome, error, httpStatus, timings } = probe
    const slug = this.slugs.get(siteId)
    if (slug === undefined) return // removed from the catalogue meanwhile
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
        this.options.log('error', `results cannot be written and are lost: ${(failure as Error).message}`)
      this.totals.lost++
    }
  }

  /** Slots are counted by the server's clock, so that all vantages agree on them. */
  private isTurn(slug: string, dueMs: number): boolean {
    const intervalSec = this.sites.get(slug)?.intervalSec
    if (!intervalSec) return false
    const atMs = this.options.nowMs() + this.serverAheadMs + dueMs - performance.now()
    return inTurn(slug, getSlotNumber(atMs / 1_000, intervalSec), this.online).includes(this.vantage)
  }

  private logSkew(): void {
    const isSkewed = Math.abs(this.serverAheadMs) > SKEW_LOGGED_MS
    if (isSkewed && !this.isSkewLogged) {
      const seconds = Math.round(Math.abs(this.serverAheadMs) / 1_000)
      const direction = this.serverAheadMs < 0 ? 'ahead of' : 'behind'
      const text = `this clock is ${seconds} s ${direction} the server's, which corrects the times of results`
      this.options.log('warning', text)
    }
    this.isSkewLogged = isSkewed
  }
}

/** A response that cannot be used. */
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

/** Checks the catalogue against its hash (spec 6.5). */
function selectContent(
  response: PollResponse,
  knownHash: string | null,
  known: CatalogueContent,
): CatalogueContent {
  const { catalogue, content } = response
  if (content === null && catalogue === knownHash) return known
  if (content !== null && hashContent(content) === catalogue) return content
  throw new CallError(200, 'the catalogue received does not match its hash')
}
