/**
 * The debug port (spec 6.5): rules, statistics, threads, profiles. Runs in the main thread. Any method is accepted; an unknown
 * path is the index.
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
/debug/threads: state of each thread, measured for a second
/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
`

const THREADS_MS = 1_000 // duration of a measurement for `/debug/threads`
const READERS_MAX = 8 // concurrent responses of `/stats` and `/rlconfig`; beyond, 409
const THREADS_REQUESTS_MAX = 4 // concurrent `/debug/threads`, each with a timer in every thread; beyond, 409

export interface DebugOptions {
  host: string
  port: number // 0 = any free port
  token: string // empty = not required
  names: ReadonlySet<string> // of access.ts; checked if there is no token
  threads: readonly string[] // that must respond to measurements
  rules: () => RulesImage | null
  loadFailure: () => string | null // error of the last load, if it failed
  stats: () => Promise<readonly Stat[]>
  threadsMs?: number // for tests; default THREADS_MS
}

/** Listens immediately or throws an Error. Must be closed before its thread ends. */
export class DebugServer {
  private readonly options: DebugOptions
  private readonly uwsPort: UwsPort
  private readonly pprof: Pprof
  private readersCount = 0
  private threadsRequestsCount = 0

  constructor(options: DebugOptions) {
    const { host, port, threads } = options
    this.options = options
    this.pprof = new Pprof(threads)
    const route = (res: HttpResponse, req: HttpRequest) => void this.respond(new Exchange(res, req))
    const opened = openUws(host, port, (app) => app.any('/*', withStrictFraming(route, 'refused')))
    if (opened === null)
      throw new Error(`cannot listen on ${host}:${port}: in use, or not an address of this machine`)
    this.uwsPort = opened
  }

  get port(): number {
    return this.uwsPort.port
  }

  close(): void {
    this.uwsPort.close()
  }

  /** Never rejects: a failure is shown to the operator and does not affect decisions. */
  private async respond(exchange: Exchange): Promise<void> {
    try {
      await this.route(exchange)
    } catch (error) {
      exchange.send(`${(error as Error).message}\n`, { status: '500 Internal Server Error' })
    }
  }

  private async route(exchange: Exchange): Promise<void> {
    const { path } = exchange
    const { token, names } = this.options
    if (token === '' && !isOwnHost(exchange.host, names)) refuseHost(exchange)
    else if (token === '' && exchange.isCrossSite) refuseSite(exchange)
    else if (!mayEnter(exchange, token)) refuseToken(exchange)
    else if (path === '/rlconfig') await this.read(exchange, () => this.sendRules(exchange))
    else if (path === '/stats') await this.read(exchange, () => this.sendStats(exchange))
    else if (path === '/debug/threads') await this.sendThreads(exchange)
    else if (path.startsWith(PPROF)) await this.pprof.respond(exchange)
    else exchange.send(INDEX)
  }

  private async read(exchange: Exchange, send: () => Promise<void>): Promise<void> {
    if (this.readersCount === READERS_MAX)
      return exchange.send(`${READERS_MAX} responses are being read already\n`, { status: '409 Conflict' })
    this.readersCount++
    await send().finally(() => this.readersCount--)
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
    if (this.threadsRequestsCount === THREADS_REQUESTS_MAX)
      return exchange.send(`${THREADS_REQUESTS_MAX} measurements are running already\n`, {
        status: '409 Conflict',
      })
    this.threadsRequestsCount++
    const { threads, threadsMs: ms = THREADS_MS } = this.options
    try {
      const inspection = await inspect('pulse', { threads, ms, signal: exchange.signal })
      if (inspection) exchange.send(threadsText(inspection))
    } finally {
      this.threadsRequestsCount--
    }
  }
}

function wantsJson({ query, accept }: Exchange): boolean {
  const format = query.get('format')
  return format === null ? /\bapplication\/json\b/i.test(accept) : format === 'json'
}

function refuseHost(exchange: Exchange): void {
  const how = 'Use an IP address or localhost, add the name to DEBUG_ALLOWED_HOSTS, or set DEBUG_TOKEN.'
  exchange.send(`the name in the Host header is not one of this port. ${how}\n`, {
    status: '421 Misdirected Request',
  })
}

function refuseSite(exchange: Exchange): void {
  const how = 'Enter the address in the browser instead of following a link, or set DEBUG_TOKEN.'
  exchange.send(`requests from pages of other sites are refused. ${how}\n`, { status: '403 Forbidden' })
}

function refuseToken(exchange: Exchange): void {
  exchange.send('a token is required: Authorization: Bearer <token>, or ?token=<token>\n', {
    status: '401 Unauthorized',
    headers: { 'WWW-Authenticate': 'Bearer realm="debug"' },
  })
}
