/**
 * The HTTP API for agents (spec 6.5): two calls, on a port of their own, AGENT_ADDR.
 *
 *     path ─► method ─► token ─► its bounds ─► body, unpacked ─► schema ─► poll: sites to probe
 *      404     405       401      429           413, 400         400     └► results: stored, repeated, refused
 *
 *     const api = new AgentApi({ store, nowMs, intervalSec, ownVantage, address, log })
 *     openUws(host, port, (app) => app.any('/*', (res, req) => api.handle(res, req)))
 *     api.setSites(sites, optOut)     // with every catalogue; 503 before the first one
 *
 * Loads no socket library, like api/api.ts. Results are stored under the vantage of the token; a request cannot name
 * another. The response is sent once they are in the store's queue: a killed server loses at most the 250 ms of spec
 * 13.11. When the queue is long, the response is 503 and the agent keeps its results. The store refuses what an agent sends beyond twice
 * what is due (storage/apply.ts); the response counts such results as stored.
 */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { Log } from '../../engine/runtime/messages.ts'
import { Body } from '../api/bodies.ts'
import { type AddressOptions, getClientAddress } from '../api/client-address.ts'
import { ApiError } from '../api/errors.ts'
import { readRequest } from '../api/request.ts'
import { RequestBody } from '../api/request-body.ts'
import { ApiResponse, toContent } from '../api/response.ts'
import { check, type Schema } from '../api/schema/json-schema.ts'
import type { HttpRequest, HttpResponse } from '../api/sockets.ts'
import type { Region } from '../facts.ts'
import type { StoredAgent } from '../storage/snapshot.ts'
import type { Store } from '../storage/store.ts'
import { type AgentSite, type Assignment, Assignments } from './assignments.ts'
import { AgentAuthenticator } from './authenticator.ts'
import { takeResults } from './results.ts'
import { SequenceTracker } from './sequence-tracker.ts'
import type { PollRequest, PollResponse, ResultsRequest, ResultsResponse } from './wire.ts'
import { POLL_PATH, POLL_REQUEST, RESULTS_PATH, RESULTS_REQUEST, UNPACKED_BYTES_MAX } from './wire.ts'

const QUEUED_ROWS_MAX = 10_000 // of the store's 50,000, which also take the server's own probes; beyond, 503
const BODY_TIMEOUT_MS = 30_000 // for slow connections; uWebSockets.js itself closes after about 12 s of silence
const DRAINED_BYTES_MAX = 64 * 1_024 // of the body of a refused request; beyond, the connection is closed
const POLL_BYTES_MAX = 4_096
const PACKED_BYTES_MAX = 1_024 * 1_024

export interface AgentApiOptions {
  store: Pick<Store, 'snapshot' | 'write' | 'read' | 'metrics'>
  nowMs: () => number
  intervalSec: number // PROBE_INTERVAL_S
  ownVantage: string | null // name; null = the server does not probe
  address: AddressOptions
  log: Log
}

/** Counted since the start. */
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

  /** Replaces the sites of all regions. */
  setSites(sites: readonly AgentSite[], optOut: Iterable<string>): void {
    this.assignments.setSites(sites, optOut)
  }

  /** Names of the vantages that probe a region now, the server's own included. */
  online(region: Region): string[] {
    const { store, ownVantage } = this.options
    if (ownVantage !== null) this.assignments.recordPoll(ownVantage, this.nowSec())
    return this.assignments.online(region, store.snapshot.vantages, this.nowSec())
  }

  metrics(): AgentApiMetrics {
    return { ...this.totals, wrongTokens: this.authenticator.wrongCount }
  }

  /** Responds with 503 from now on. The caller closes the port. */
  beginShutdown(): void {
    this.isEnding = true
  }

  /** Handles one request; must be called within the callback of uWebSockets.js. */
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
      const agent = this.authenticator.authenticate(
        authorization,
        getClientAddress(request, address),
        agents,
        nowMs(),
      )
      const requestBody = new RequestBody(res, length, BODY_TIMEOUT_MS, call.bytesMax)
      let hasLeft = false // a call that still runs when its agent disconnects counts until it has ended
      const leave = () => {
        if (!hasLeft) this.authenticator.release(agent)
        hasLeft = true
      }
      let isRunning = false
      reply.onEnd = () => {
        requestBody.cancel()
        if (!isRunning) leave()
      }
      requestBody.whenDone((body) => {
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
      throw new ApiError('method_not_allowed', 'this path supports POST', [['Allow', 'POST']])
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
      const value = parseJson(encoding === 'gzip' ? await unpack(body, unpackedMax) : body)
      const violation = check(schema, value, {})
      if (violation !== null) throw new ApiError('invalid_request', violation)
      reply.send(toContent(new Body(JSON.stringify(await run(agent, value as never)))))
    } catch (error) {
      reply.fail(error, this.options.log)
    }
  }

  private async poll(agent: StoredAgent, { catalogue }: PollRequest): Promise<PollResponse> {
    const { store, nowMs, intervalSec } = this.options
    const { sha256, content } = this.getAssignment(agent)
    await this.accepted.load(agent)
    this.totals.polls++
    this.assignments.recordPoll(agent.name, this.nowSec())
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
    // No await below: of two requests with the same results the second finds them accepted.
    const context = { accepted: this.accepted.getLast(agent), siteIds, nowMs: nowMs() }
    const { response, probes } = takeResults(request, context)
    for (const { siteId, probe } of probes) {
      const dueSec = intervalsSec.get(siteId) ?? intervalSec
      store.write({ kind: 'probe', siteId, vantageId: agent.vantageId, probe, dueSec })
    }
    this.accepted.record(agent, response.accepted)
    this.totals.stored += response.stored
    this.totals.repeated += response.repeated
    this.totals.refused += response.refused
    return response
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

/** Unpacks at most `bytesMax` bytes. Throws ApiError. */
async function unpack(body: Buffer, bytesMax: number): Promise<Buffer> {
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
