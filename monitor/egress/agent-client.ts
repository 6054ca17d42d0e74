/**
 * The way home: an agent's calls to its own server (spec 6.5). POST, one address, and nothing else.
 *
 *     post('/agent/v1/poll', value) ─► JSON, gzip from 1 KiB ─► answer within 30 s and 32 MiB ─► status, JSON
 *
 * Its address is not judged, as those of targets are: it is the operator's own, written in AGENT_SERVER on this machine,
 * most often in a private network, and no catalogue, target or answer can change it. Redirects are not followed, so the
 * token goes nowhere else, and not through EGRESS_PROXY, which is for targets. It shares no code path with visits, which
 * stay GET and HEAD to public addresses.
 * A connection per call: at one in 10 s a kept one would be closed by the other side just as it is used.
 *
 * What the server says is its status; that there was none is thrown, as a Failure.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { readBody } from './body.ts'
import { within } from './deadline.ts'
import { Failure, toFailure } from './failure.ts'

const CALL_MS = 30_000 // from the look-up of its name to the last byte
const ANSWER_BYTES_MAX = 32 * 1_024 * 1_024 // 5,000 sites with a long opt-out list
const RATIO_MAX = 1_000 // it is our own server; sizes are bounded anyway
const PACKED_BYTES_MIN = 1_024
const TOKEN = /^[\x21-\x7e]{1,256}$/

export interface AgentClientOptions {
  server: string // AGENT_SERVER
  token: string
  version: string
  ca?: string // PEM; default: those of Node
  callMs?: number // tests wait less
}

export interface AgentClientResponse {
  status: number
  retryAfterSec: number // 0 = says nothing
  json: unknown // undefined = it is none
}

export class AgentClient {
  readonly base: URL
  private readonly options: AgentClientOptions

  /** Throws OperatorError. */
  constructor(options: AgentClientOptions) {
    this.options = options
    this.base = parseBaseUrl(options.server)
    if (TOKEN.test(options.token)) return
    const what = 'is no token: one line of visible characters.'
    throw complaint('AGENT_TOKEN', what, 'Write what `monitor vantage create` has shown.')
  }

  async post(path: string, value: unknown, outer?: AbortSignal): Promise<AgentClientResponse> {
    const plain = Buffer.from(JSON.stringify(value))
    const isPacked = plain.length >= PACKED_BYTES_MIN
    const body = isPacked ? await promisify(gzip)(plain) : plain
    const deadline = { ms: this.options.callMs ?? CALL_MS, code: 'http_timeout', outer } as const
    return within(deadline, async (signal) => {
      const response = await this.send(path, body, isPacked, signal)
      const limits = { bytesMax: ANSWER_BYTES_MAX, ratioMax: RATIO_MAX, isEmpty: false, signal }
      try {
        return toResponse(response, await readBody(response, limits))
      } catch (error) {
        throw toFailure('http', error)
      } finally {
        response.destroy()
      }
    })
  }

  private send(path: string, body: Buffer, isPacked: boolean, signal: AbortSignal): Promise<IncomingMessage> {
    const { token, version, ca } = this.options
    const url = new URL(this.base.pathname.replace(/\/$/, '') + path, this.base)
    return new Promise((resolve, reject) => {
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest
      const request = send(url, {
        method: 'POST',
        agent: false,
        ca,
        signal,
        headers: {
          authorization: `Bearer ${token}`,
          'user-agent': `RelayMonitorAgent/${version}`,
          'accept-encoding': 'gzip',
          'content-type': 'application/json',
          'content-length': body.length,
          ...(isPacked && { 'content-encoding': 'gzip' }),
        },
      })
      request.on('error', (error) => reject(signal.aborted ? signal.reason : toFailure('connect', error)))
      request.once('response', resolve)
      request.end(body)
    })
  }
}

function toResponse({ statusCode, headers }: IncomingMessage, body: Buffer): AgentClientResponse {
  const waitSec = Number(headers['retry-after'] ?? 0)
  return {
    status: statusCode as number,
    retryAfterSec: Number.isFinite(waitSec) ? Math.max(0, waitSec) : 0, // a date is none of ours
    json: parseJson(body.toString()),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function parseBaseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:'
  if (isHttp && url.username === '' && url.password === '' && url.search === '' && url.hash === '') return url
  const what = 'is no address of a server.'
  throw complaint('AGENT_SERVER', what, 'Write it like https://monitor.example.org:8091.')
}

function complaint(where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code: 'AGENT_SETTING', where, what, fix, exitCode: 2 })
}

/** For logs: what kept a call from being answered, never a word of the other side. */
export function agentClientFailure(error: unknown): string {
  return error instanceof Failure ? error.message : String(error)
}
