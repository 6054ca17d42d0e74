/**
 * The port Prometheus asks (spec 6.6): one path, whatever the method; any other is 404. No profiles here (Q13).
 *
 * A page must not read it through an operator's browser by a name of its own (DNS rebinding). Scrapes come by any name, such as
 * `sluice.monitoring.svc` or that of a machine, so names are checked of browsers alone (debug/access.ts).
 */

import { withStrictFraming } from '../../../engine/runtime/http-framing.ts'
import { endHeadResponse, endResponse } from '../../../engine/runtime/http-response.ts'
import { isBrowser, isCrossSite, isOwnHost } from '../../debug/access.ts'
import type { HttpRequest, HttpResponse } from '../../uws.ts'
import { openUws, type UwsPort } from '../../uws.ts'
import { CONTENT_TYPES, type Format } from './exposition.ts'
import { formatFor, takesGzip } from './negotiate.ts'

const SCRAPES_MAX = 16 // at once, until each has read to the end; beyond, 503

const FOREIGN_NAME =
  'the name in the Host header is not one that browsers may ask this port by. ' +
  'Ask by IP address or localhost, or add the name to DEBUG_ALLOWED_HOSTS.\n'

/** What one answer holds. */
export type Scrape = (format: Format, isGzip: boolean) => Promise<Buffer>

export interface MetricsPortOptions {
  host: string
  port: number
  path: string
  names: ReadonlySet<string> // that browsers may ask by, as of the debug port
  scrape: Scrape
  onAnswer: (status: number) => void // of each scrape
}

export class MetricsPort {
  inFlight = 0
  private readonly path: string
  private readonly names: ReadonlySet<string>
  private readonly scrape: Scrape
  private readonly onAnswer: (status: number) => void
  private readonly uwsPort: UwsPort | null

  constructor({ host, port, path, names, scrape, onAnswer }: MetricsPortOptions) {
    this.path = path
    this.names = names
    this.scrape = scrape
    this.onAnswer = onAnswer
    const route = (res: HttpResponse, req: HttpRequest) => this.route(res, req)
    this.uwsPort = openUws(host, port, (app) => app.any('/*', withStrictFraming(route, 'refused')))
  }

  /** Undefined where it does not listen. */
  get port(): number | undefined {
    return this.uwsPort?.port
  }

  close(): void {
    this.uwsPort?.close()
  }

  private route(res: HttpResponse, req: HttpRequest): void {
    if (isCrossSite(req)) {
      res.writeStatus('403 Forbidden').writeHeader('Content-Type', 'text/plain; charset=utf-8')
      endResponse(res, 'a page of another site asks: enter the address in the browser instead\n', false)
      return
    }
    if (isBrowser(req) && !isOwnHost(req.getHeader('host'), this.names)) {
      res.writeStatus('421 Misdirected Request').writeHeader('Content-Type', 'text/plain; charset=utf-8')
      endResponse(res, FOREIGN_NAME, false)
      return
    }
    if (req.getUrl() !== this.path) {
      res.writeStatus('404 Not Found').writeHeader('Content-Type', 'text/plain; charset=utf-8')
      endResponse(res, `Nothing is here; the statistics are at ${this.path}\n`, false)
      return
    }
    void this.answer(res, {
      isHead: req.getMethod() === 'head',
      format: formatFor(req.getHeader('accept')),
      isGzip: takesGzip(req.getHeader('accept-encoding')),
    })
  }

  private async answer(res: HttpResponse, { isHead, format, isGzip }: Asked): Promise<void> {
    let isGone = false
    const gone = new Promise<void>((resolve) => {
      res.onAborted(() => {
        isGone = true
        resolve()
      })
    })
    if (this.inFlight >= SCRAPES_MAX) return this.fail(res, 503, `${SCRAPES_MAX} scrapes are under way`)
    this.inFlight++
    try {
      const body = await this.scrape(format, isGzip)
      this.onAnswer(200)
      if (!isGone) await send(res, body, { isHead, format, isGzip, gone })
    } catch (error) {
      if (!isGone) res.cork(() => this.fail(res, 500, (error as Error).message))
    } finally {
      this.inFlight--
    }
  }

  private fail(res: HttpResponse, status: 500 | 503, why: string): void {
    this.onAnswer(status)
    res.writeStatus(status === 500 ? '500 Internal Server Error' : '503 Service Unavailable')
    res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
    endResponse(res, `${why}\n`, false)
  }
}

interface Asked {
  isHead: boolean
  format: Format
  isGzip: boolean
}

interface Answered extends Asked {
  gone: Promise<void> // resolves when the client has left
}

/**
 * Resolves when all is written, or the client has gone. What it does not read stays in `body`, which all share who ask for
 * the same at the same time.
 */
function send(res: HttpResponse, body: Buffer, { isHead, format, isGzip, gone }: Answered): Promise<void> {
  const written = new Promise<void>((resolve) => {
    const writeFrom = (offset: number): boolean => {
      const [ok, isDone] = res.tryEnd(body.subarray(offset), body.length)
      if (isDone) resolve()
      return ok
    }
    res.cork(() => {
      res.writeHeader('Content-Type', CONTENT_TYPES[format])
      res.writeHeader('Vary', 'Accept, Accept-Encoding')
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
  return Promise.race([written, gone])
}
