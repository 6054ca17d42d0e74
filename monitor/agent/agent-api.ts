/**
 * The server's side of agents (spec 6.5): two calls on a port of their own, AGENT_ADDR.
 *
 *     path ─► method ─► token ─► its bounds ─► body, unpacked ─► schema ─► poll: what to probe
 *      404     405       401      429           413, 400         400     └► results: stored, repeated, refused
 *
 *     const desk = new AgentDesk({ store, nowMs, intervalSec, ownVantage, address, log })
 *     openUws(host, port, (app) => app.any('/*', (res, req) => desk.handle(res, req)))
 *     desk.setSites(sites, optOut)     // with every catalogue; before the first one agents are told to come later
 *
 * Loads no socket library, as api/api.ts. Everything is stored under the vantage of the token; no request can name
 * another. Results are answered when they are in the store's queue: a killed server loses the 250 ms of spec 13.11, and
 * takes again from the agent what it had not noted. The store leaves out what an agent sends beyond what is due
 * (storage/apply.ts); such results are answered as stored. When the store is far behind, agents keep theirs.
 */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { Log } from '../../engine/runtime/messages.ts'
import { Body } from '../api/bodies.ts'
import { type AddressOptions, getClientAddress } from '../api/client-address.ts'
import { ApiError } from '../api/errors.ts'
import { readRequest } from '../api/request.ts'
import { ApiResponse, answer } from '../api/response.ts'
import { check, type Schema } from '../api/schema/json-schema.ts'
import type { HttpRequest, HttpResponse } from '../api/sockets.ts'
import { Upload } from '../api/upload.ts'
import type { Region } from '../facts.ts'
import type { StoredAgent } from '../storage/snapshot.ts'
import type { Store } from '../storage/store.ts'
import { type AgentSite, type Assignment, Assignments } from './assignments.ts'
import { AgentAuthenticator } from './authenticator.ts'
import { takeResults } from './results.ts'
import { SequenceTracker } from './sequence-tracker.ts'
import type { PollRequest, PollResponse, ResultsRequest, ResultsResponse } from './wire.ts'
import { POLL_PATH, POLL_REQUEST, RESULTS_PATH, RESULTS_REQUEST, UNPACKED_BYTES_MAX } from './wire.ts'

const QUEUED_ROWS_MAX = 10_000 // of the store's 50,000: the rest is for the server's own probes
const BODY_TIMEOUT_MS = 30_000 // slow lines; the library itself closes at about 12 s of silence
const DRAINED_BYTES_MAX = 64 * 1_024 // of a body nobody wants; beyond, its connection goes
const POLL_BYTES_MAX = 4_096
const PACKED_BYTES_MAX = 1_024 * 1_024

export interface AgentApiOptions {
  store: Pick<Store, 'snapshot' | 'write' | 'read' | 'metrics'>
  nowMs: () => number
  intervalSec: number // PROBE_INTERVAL_S
  ownVantage: string | null // name; null = nothing is probed from the server
  address: AddressOptions
  log: Log
}

/** Since the start. For metrics. */
export interface AgentApiMetrics {
  polls: number
  stored: number
  repeated: number
  refused: number
  wrongTokens: number
}

interface Call {
  schema: Schema
  bytesMax: number // on the wire
  unpackedMax: number
  run: (agent: StoredAgent, value: never) => Promise<object>
}

export class AgentApi {
  private readonly options: AgentApiOptions
  private readonly accepted: SequenceTracker
  private readonly assignments = new Assignments()
  private readonly authenticator = new AgentAuthenticator()
  private readonly totals = { polls: 0, stored: 0, repeated: 0, refused: 0 }
  private isEnding = false

  private readonly calls: Record<string, Call> = {
    [POLL_PATH]: {
      ...{ schema: POLL_REQUEST, bytesMax: POLL_BYTES_MAX, unpackedMax: POLL_BYTES_MAX },
      run: (agent, value) => this.poll(agent, value),
    },
    [RESULTS_PATH]: {
      ...{ schema: RESULTS_REQUEST, bytesMax: PACKED_BYTES_MAX, unpackedMax: UNPACKED_BYTES_MAX },
      run: (agent, value) => this.results(agent, value),
    },
  }

  constructor(options: AgentApiOptions) {
    this.options = options
    this.accepted = new SequenceTracker(options.store)
  }

  /** All sites that are to be probed from anywhere; replaces what was there. */
  setSites(sites: readonly AgentSite[], optOut: Iterable<string>): void {
    this.assignments.setSites(sites, optOut)
  }

  /** Who probes a region now, by name: for turns, also those of the server's own prober. */
  online(region: Region): string[] {
    const { store, ownVantage } = this.options
    if (ownVantage !== null) this.assignments.saw(ownVantage, this.nowSec())
    return this.assignments.online(region, store.snapshot.vantages, this.nowSec())
  }

  metrics(): AgentApiMetrics {
    return { ...this.totals, wrongTokens: this.authenticator.wrongCount }
  }

  /** From now on 503. The port is the composition's to close; what is cut off comes again. */
  beginShutdown(): void {
    this.isEnding = true
  }

  /** One request; to be called in the library's own callback. */
  handle(res: HttpResponse, req: HttpRequest): void {
    const { address, store, nowMs } = this.options
    const request = readRequest(req, res, address)
    const encoding = req.getHeader('content-encoding').trim().toLowerCase()
    const length = Number(request.headers['content-length'] || Number.NaN)
    const reply = new ApiResponse(res, request, false)
    try {
      const call = this.findCall(request.path, request.method)
      if (this.isEnding) throw new ApiError('not_ready', 'the service is shutting down')
      if (encoding !== '' && encoding !== 'gzip')
        throw new ApiError('unsupported_media_type', 'bodies are gzip, or not encoded')
      const { authorization } = request.headers
      const { agents } = store.snapshot
      const agent = this.authenticator.enter(
        authorization,
        getClientAddress(request, address),
        agents,
        nowMs(),
      )
      const upload = new Upload(res, length, BODY_TIMEOUT_MS, call.bytesMax)
      let isOver = false // once: what is still running when its agent hangs up counts until it has ended
      const leave = () => {
        if (!isOver) this.authenticator.leave(agent)
        isOver = true
      }
      let isRunning = false
      reply.onEnd = () => {
        upload.cancel()
        if (!isRunning) leave()
      }
      upload.whenDone((body) => {
        isRunning = true
        void this.run(call, agent, body, encoding, reply).finally(leave)
      })
    } catch (error) {
      if (!(length <= DRAINED_BYTES_MAX)) reply.mustClose = true
      reply.fail(error, this.options.log)
    }
  }

  private findCall(path: string, method: string): Call {
    const call = Object.hasOwn(this.calls, path) ? this.calls[path] : null
    if (call === null) throw new ApiError('not_found', 'there is no such path')
    if (method !== 'POST')
      throw new ApiError('method_not_allowed', 'this path answers to POST', [['Allow', 'POST']])
    return call
  }

  private async run(
    { schema, unpackedMax, run }: Call,
    agent: StoredAgent,
    body: Buffer | ApiError,
    encoding: string,
    reply: ApiResponse,
  ): Promise<void> {
    try {
      if (body instanceof ApiError) throw body
      const value = parseJson(encoding === 'gzip' ? await unpacked(body, unpackedMax) : body)
      const complaint = check(schema, value, {})
      if (complaint !== null) throw new ApiError('invalid_request', complaint)
      reply.send(answer(new Body(JSON.stringify(await run(agent, value as never)))))
    } catch (error) {
      reply.fail(error, this.options.log)
    }
  }

  private async poll(agent: StoredAgent, { catalogue }: PollRequest): Promise<PollResponse> {
    const { store, nowMs, intervalSec } = this.options
    const { sha256, content } = this.getAssignment(agent)
    await this.accepted.load(agent)
    this.totals.polls++
    this.assignments.saw(agent.name, this.nowSec())
    store.write({ kind: 'vantage-seen', vantageId: agent.vantageId, atSec: this.nowSec() })
    return {
      vantage: agent.name,
      clock_ms: Math.floor(nowMs()),
      interval_s: intervalSec,
      accepted: this.accepted.getLast(agent),
      online: this.online(agent.region),
      catalogue: sha256,
      content: catalogue === sha256 ? null : content,
    }
  }

  private async results(agent: StoredAgent, request: ResultsRequest): Promise<ResultsResponse> {
    const { store, nowMs, intervalSec } = this.options
    const { siteIds, intervalsSec } = this.getAssignment(agent)
    if (store.metrics().queuedRows > QUEUED_ROWS_MAX)
      throw new ApiError('not_ready', 'the store is behind; keep the results')
    await this.accepted.load(agent)
    // Nothing is waited for below: of two requests with the same results the second finds them accepted.
    const context = { accepted: this.accepted.getLast(agent), siteIds, nowMs: nowMs() }
    const { answer: taken, probes } = takeResults(request, context)
    for (const { siteId, probe } of probes) {
      const dueSec = intervalsSec.get(siteId) ?? intervalSec
      store.write({ kind: 'probe', siteId, vantageId: agent.vantageId, probe, dueSec })
    }
    this.accepted.record(agent, taken.accepted)
    this.totals.stored += taken.stored
    this.totals.repeated += taken.repeated
    this.totals.refused += taken.refused
    return taken
  }

  private getAssignment({ region }: StoredAgent): Assignment {
    const assignment = this.assignments.getAssignment(region)
    if (assignment === null) throw new ApiError('not_ready', 'the catalogue is not loaded yet')
    return assignment
  }

  private nowSec(): number {
    return Math.floor(this.options.nowMs() / 1_000)
  }
}

const unzip = promisify(gunzip)

/** Unpacks no more than `bytesMax`, whatever it would become. */
async function unpacked(body: Buffer, bytesMax: number): Promise<Buffer> {
  try {
    return await unzip(body, { maxOutputLength: bytesMax })
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE')
      throw new ApiError('payload_too_large', `the body must have at most ${bytesMax} bytes, unpacked`)
    throw new ApiError('invalid_request', 'the body is not gzip')
  }
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    throw new ApiError('invalid_request', 'the body is not JSON')
  }
}
