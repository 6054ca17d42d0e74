/** Requests of the monitor's public port: the API below /api, two health checks, and the web site. */
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import { BODY_BYTES_MAX } from '../api/request-body.ts'
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
  const mustClose = Number(req.getHeader('content-length')) > BODY_BYTES_MAX // the body is not read
  const sendText = (status: string, text: string) => send(res, status, `${text}\n`, { isHead, mustClose })
  if (path === '/healthz') sendText('200 OK', 'ok')
  else if (path === '/readyz' && isReady()) sendText('200 OK', 'ready')
  else if (path === '/readyz') sendText('503 Service Unavailable', 'not ready')
  else site.handle(res, req)
}

function send(
  res: HttpResponse,
  status: string,
  text: string,
  { isHead, mustClose }: { isHead: boolean; mustClose: boolean },
): void {
  res.cork(() => {
    res.writeStatus(status)
    res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
    res.writeHeader('X-Content-Type-Options', 'nosniff')
    if (isHead) endHeadResponse(res, Buffer.byteLength(text))
    else endResponse(res, text, mustClose)
  })
}
