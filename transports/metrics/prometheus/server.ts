/**
 * The port that Prometheus scrapes (spec 6.6): one path with any method; other paths are 404. No profiles here (Q13).
 *
 * A web page must not read it through an operator's browser (DNS rebinding). Scrapers use any host name, such as
 * `sluice.monitoring.svc`, so the Host header is checked for browsers only (debug/access.ts).
 */
import { withStrictFraming } from '../../../engine/runtime/http-framing.ts'
import { endHeadResponse, endResponse } from '../../../engine/runtime/http-response.ts'
import { parseQualityValues } from '../../../engine/runtime/quality-values.ts'
import { isBrowser, isCrossSite, isOwnHost } from '../../debug/access.ts'
import type { HttpRequest, HttpResponse } from '../../uws.ts'
import { openUws, type UwsPort } from '../../uws.ts'
import { CONTENT_TYPE } from './exposition.ts'

const SCRAPES_MAX = 16 // until each client has read to the end; beyond, 503

const FOREIGN_HOST =
  'browsers may not use this port by the name in the Host header. ' +
  'Use an IP address or localhost, or add the name to DEBUG_ALLOWED_HOSTS.\n'

/** Returns the body of a response. */
export type Scrape = (isGzip: boolean) => Promise<Buffer>

export interface MetricsPortOptions {
  host: string
  port: number
  path: string
  names: ReadonlySet<string> // hosts that browsers may use, as for the debug port
  scrape: Scrape
  onResponse: (status: number) => void // to each scrape
}

export class MetricsPort {
  inFlight = 0
  private readonly path: string
  private readonly names: ReadonlySet<string>
  private readonly scrape: Scrape
  private readonly onResponse: (status: number) => void
  private readonly uwsPort: UwsPort | null

  constructor({ host, port, path, names, scrape, onResponse }: MetricsPortOptions) {
    this.path = path
    this.names = names
    this.scrape = scrape
    this.onResponse = onResponse
    const route = (res: HttpResponse, req: HttpRequest) => this.route(res, req)
    this.uwsPort = openUws(host, port, (app) => app.any('/*', withStrictFraming(route, 'refused')))
  }

  /** Undefined if it does not listen. */
  get port(): number | undefined {
    return this.uwsPort?.port
  }

  close(): void {
    this.uwsPort?.close()
  }

  private route(res: HttpResponse, req: HttpRequest): void {
    if (isCrossSite(req)) {
      res.writeStatus('403 Forbidden').writeHeader('Content-Type', 'text/plain; charset=utf-8')
      endResponse(
        res,
        'requests from pages of other sites are refused: enter the address in the browser instead\n',
        false,
      )
      return
    }
    if (isBrowser(req) && !isOwnHost(req.getHeader('host'), this.names)) {
      res.writeStatus('421 Misdirected Request').writeHeader('Content-Type', 'text/plain; charset=utf-8')
      endResponse(res, FOREIGN_HOST, false)
      return
    }
    if (req.getUrl() !== this.path) {
      res.writeStatus('404 Not Found').writeHeader('Content-Type', 'text/plain; charset=utf-8')
      endResponse(res, `not found; the statistics are at ${this.path}\n`, false)
      return
    }
    void this.respond(res, {
      isHead: req.getMethod() === 'head',
      isGzip: acceptsGzip(req.getHeader('accept-encoding')),
    })
  }

  private async respond(res: HttpResponse, { isHead, isGzip }: ResponseOptions): Promise<void> {
    let isAborted = false
    const aborted = new Promise<void>((resolve) => {
      res.onAborted(() => {
        isAborted = true
        resolve()
      })
    })
    if (this.inFlight >= SCRAPES_MAX) return this.fail(res, 503, `${SCRAPES_MAX} scrapes are in progress`)
    this.inFlight++
    try {
      const body = await this.scrape(isGzip)
      this.onResponse(200)
      if (!isAborted) await Promise.race([send(res, body, { isHead, isGzip }), aborted])
    } catch (error) {
      if (!isAborted) res.cork(() => this.fail(res, 500, (error as Error).message))
    } finally {
      this.inFlight--
    }
  }

  private fail(res: HttpResponse, status: 500 | 503, why: string): void {
    this.onResponse(status)
    res.writeStatus(status === 500 ? '500 Internal Server Error' : '503 Service Unavailable')
    res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
    endResponse(res, `${why}\n`, false)
  }
}

export function acceptsGzip(acceptEncoding: string): boolean {
  const weights = parseQualityValues(acceptEncoding)
  return (weights.get('gzip') ?? 0) > 0 || (weights.get('x-gzip') ?? 0) > 0
}

interface ResponseOptions {
  isHead: boolean
  isGzip: boolean
}

/** Resolves when all is written. What the client does not read stays in `body`, which concurrent scrapes share. */
function send(res: HttpResponse, body: Buffer, { isHead, isGzip }: ResponseOptions): Promise<void> {
  return new Promise<void>((resolve) => {
    const writeFrom = (offset: number): boolean => {
      const [ok, isDone] = res.tryEnd(body.subarray(offset), body.length)
      if (isDone) resolve()
      return ok
    }
    res.cork(() => {
      res.writeHeader('Content-Type', CONTENT_TYPE)
      res.writeHeader('Vary', 'Accept-Encoding')
      if (isGzip) res.writeHeader('Content-Encoding', 'gzip')
      if (!isHead) {
        res.onWritable(writeFrom)
        writeFrom(0)
        return
      }
      endHeadResponse(res, body.length)
      resolve()
    })
  })
}
