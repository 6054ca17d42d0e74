/**
 * The operators' port (spec 6.5): what is loaded, what was counted, how the threads are. Runs in main. Any method will do;
 * any other path is the index.
 */

import type { RulesImage } from '../../engine/config/rules.ts'
import { withStrictFraming } from '../../engine/runtime/http-framing.ts'
import { type HttpRequest, type HttpResponse, openUws, type UwsPort } from '../uws.ts'
import { isOwnHost, mayEnter } from './access.ts'
import { Exchange, JSON_TYPE } from './exchange.ts'
import { inspect } from './inspect.ts'
import { PPROF, Pprof } from './pprof.ts'
import { rulesJson, rulesLines, type Stat, statsJson, statsLines } from './text-pages.ts'
import { threadsText } from './threads.ts'

const INDEX = `/debug/pprof/: root of various pprof endpoints. hit for help.
/debug/pprof/profile: CPU profiling endpoint
/debug/pprof/trace: trace endpoint
/debug/threads: how each thread is, measured for a second
/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
`

const THREADS_MS = 1_000
const READERS_MAX = 8 // of `/stats` and `/rlconfig` at once, until each has read to the end
const LOOKERS_MAX = 4 // at `/debug/threads` at once; each is a timer in every thread

export interface DebugOptions {
  host: string
  port: number // 0 = any free one
  token: string // empty = none is asked for
  names: ReadonlySet<string> // of access.ts; checked without a token
  threads: readonly string[] // that must answer when they are looked at
  rules: () => RulesImage | null
  loadFailure: () => string | null // what the last load said, if it failed
  stats: () => Promise<readonly Stat[]>
}

/** Listens at once, or throws an Error. Must be closed before its thread ends. */
export class DebugServer {
  private readonly options: DebugOptions
  private readonly uwsPort: UwsPort
  private readonly pprof: Pprof
  private readersCount = 0
  private lookersCount = 0

  constructor(options: DebugOptions) {
    const { host, port, threads } = options
    this.options = options
    this.pprof = new Pprof(threads)
    const route = (res: HttpResponse, req: HttpRequest) => void this.answer(new Exchange(res, req))
    const opened = openUws(host, port, (app) => app.any('/*', withStrictFraming(route, 'refused')))
    if (opened === null)
      throw new Error(`cannot listen on ${host}:${port}: in use, or no address of this machine`)
    this.uwsPort = opened
  }

  get port(): number {
    return this.uwsPort.port
  }

  close(): void {
    this.uwsPort.close()
  }

  /** Never rejects: what breaks here is the operator's to see, and no decision's to miss. */
  private async answer(exchange: Exchange): Promise<void> {
    try {
      await this.route(exchange)
    } catch (error) {
      exchange.send(`${(error as Error).message}\n`, { status: '500 Internal Server Error' })
    }
  }

  private async route(exchange: Exchange): Promise<void> {
    const { path } = exchange
    const { token, names } = this.options
    if (token === '' && !isOwnHost(exchange.host, names)) refuseName(exchange)
    else if (token === '' && exchange.isCrossSite) refuseSite(exchange)
    else if (!mayEnter(exchange, token)) refuse(exchange)
    else if (path === '/rlconfig') await this.read(exchange, () => this.sendRules(exchange))
    else if (path === '/stats') await this.read(exchange, () => this.sendStats(exchange))
    else if (path === '/debug/threads') await this.sendThreads(exchange)
    else if (path.startsWith(PPROF)) await this.pprof.answer(exchange)
    else exchange.send(INDEX)
  }

  private async read(exchange: Exchange, answer: () => Promise<void>): Promise<void> {
    if (this.readersCount === READERS_MAX)
      return exchange.send(`${READERS_MAX} are reading already\n`, { status: '409 Conflict' })
    this.readersCount++
    await answer().finally(() => this.readersCount--)
  }

  private sendRules(exchange: Exchange): Promise<void> {
    const [rules, failure] = [this.options.rules(), this.options.loadFailure()]
    if (wantsJson(exchange)) return exchange.sendPieces(rulesJson(rules, failure), { type: JSON_TYPE })
    return exchange.sendPieces(rulesLines(rules, failure))
  }

  private async sendStats(exchange: Exchange): Promise<void> {
    const stats = await this.options.stats()
    if (wantsJson(exchange)) await exchange.sendPieces(statsJson(stats), { type: JSON_TYPE })
    else await exchange.sendPieces(statsLines(stats))
  }

  private async sendThreads(exchange: Exchange): Promise<void> {
    if (this.lookersCount === LOOKERS_MAX)
      return exchange.send(`${LOOKERS_MAX} are looking already\n`, { status: '409 Conflict' })
    this.lookersCount++
    const { threads } = this.options
    try {
      const pulses = await inspect('pulse', { threads, ms: THREADS_MS, signal: exchange.signal })
      if (pulses) exchange.send(threadsText(pulses))
    } finally {
      this.lookersCount--
    }
  }
}

function wantsJson({ query, accept }: Exchange): boolean {
  const format = query.get('format')
  return format === null ? /\bapplication\/json\b/i.test(accept) : format === 'json'
}

function refuseName(exchange: Exchange): void {
  const how = 'Ask by IP address or localhost, add the name to DEBUG_ALLOWED_HOSTS, or set DEBUG_TOKEN.'
  exchange.send(`the name in the Host header is not one of this port. ${how}\n`, {
    status: '421 Misdirected Request',
  })
}

function refuseSite(exchange: Exchange): void {
  const how = 'Enter the address in the browser instead of following a link, or set DEBUG_TOKEN.'
  exchange.send(`a page of another site asks. ${how}\n`, { status: '403 Forbidden' })
}

function refuse(exchange: Exchange): void {
  exchange.send('show the token: Authorization: Bearer <token>, or ?token=<token>\n', {
    status: '401 Unauthorized',
    headers: { 'WWW-Authenticate': 'Bearer realm="debug"' },
  })
}
