/**
 * An agent's calls to its server (spec 6.5): POST to one address.
 *
 *     post('/agent/v1/poll', value) ─► JSON, gzip from 1 KiB ─► response within 30 s and 32 MiB ─► status, JSON
 *
 * The address is not checked as targets are: it is the operator's AGENT_SERVER, usually in a private network, and no
 * catalogue, target or response can change it. Redirects are not followed and EGRESS_PROXY is not used, so the token goes
 * nowhere else. Visits share none of this code; they stay GET and HEAD to public addresses. Each call opens a
 * connection: at one call in 10 s, the server would close a kept one just as it is used.
 *
 * Any status is returned; a missing response is thrown as a Failure.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { readBody } from './body.ts'
import { within } from './deadline.ts'
import { Failure, toFailure } from './failure.ts'

const CALL_MS = 30_000 // from name resolution to the last byte
const RESPONSE_BYTES_MAX = 32 * 1_024 * 1_024 // 5,000 sites with a long opt-out list
const RATIO_MAX = 1_000 // of a trusted server; the size is bounded too
const GZIP_BYTES_MIN = 1_024
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
  retryAfterSec: number // 0 = not given
  json: unknown // undefined = not JSON
}

export class AgentClient {
  readonly base: URL
  private readonly options: AgentClientOptions

  /** Throws ConfigurationError. */
  constructor(options: AgentClientOptions) {
    this.options = options
    this.base = parseBaseUrl(options.server)
    if (TOKEN.test(options.token)) return
    const what = 'is not a token: one line of visible characters.'
    throw settingError('AGENT_TOKEN', what, 'Set it to the token that `monitor vantage create` has shown.')
  }

  async post(path: string, value: unknown, outer?: AbortSignal): Promise<AgentClientResponse> {
    const plain = Buffer.from(JSON.stringify(value))
    const isCompressed = plain.length >= GZIP_BYTES_MIN
    const body = isCompressed ? await promisify(gzip)(plain) : plain
    const deadline = { ms: this.options.callMs ?? CALL_MS, code: 'http_timeout', outer } as const
    return within(deadline, async (signal) => {
      const response = await this.send(path, body, isCompressed, signal)
      const limits = { bytesMax: RESPONSE_BYTES_MAX, ratioMax: RATIO_MAX, isEmpty: false, signal }
      try {
        return toResponse(response, await readBody(response, limits))
      } catch (error) {
        throw toFailure('http', error)
      } finally {
        response.destroy()
      }
    })
  }

  private send(
    path: string,
    body: Buffer,
    isCompressed: boolean,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
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
          ...(isCompressed && { 'content-encoding': 'gzip' }),
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
    retryAfterSec: Number.isFinite(waitSec) ? Math.max(0, waitSec) : 0, // dates are not supported
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
  const what = 'is not the URL of a server.'
  throw settingError('AGENT_SERVER', what, 'Write it like https://monitor.example.org:8091.')
}

function settingError(where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code: 'AGENT_SETTING', where, what, fix, exitCode: 2 })
}

/** For logs: why a call failed; never text of the server. */
export function agentClientFailure(error: unknown): string {
  return error instanceof Failure ? error.message : String(error)
}
