/** Requests of the monitor's public port: the API below /api, two health checks, and the web site. */
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import type { HttpRequest, HttpResponse } from '../api/sockets.ts'

export interface Destinations {
  api: { handle(res: HttpResponse, req: HttpRequest): void }
  site: { handle(res: HttpResponse, req: HttpRequest): void }
  isReady: () => boolean // the catalogue is loaded and no shutdown has begun
}

export function dispatch(res: HttpResponse, req: HttpRequest, { api, site, isReady }: Destinations): void {
  const path = req.getUrl()
  if (path === '/api' || path.startsWith('/api/')) {
    api.handle(res, req)
    return
  }
  const isHead = req.getCaseSensitiveMethod() === 'HEAD'
  if (path === '/healthz') sendText(res, '200 OK', 'ok', isHead)
  else if (path === '/readyz' && isReady()) sendText(res, '200 OK', 'ready', isHead)
  else if (path === '/readyz') sendText(res, '503 Service Unavailable', 'not ready', isHead)
  else site.handle(res, req)
}

function sendText(res: HttpResponse, status: string, content: string, isHead: boolean): void {
  const text = `${content}\n`
  res.cork(() => {
    res.writeStatus(status)
    res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
    res.writeHeader('X-Content-Type-Options', 'nosniff')
    if (isHead) endHeadResponse(res, Buffer.byteLength(text))
    else endResponse(res, text, false)
  })
}
