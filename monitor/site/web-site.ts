/**
 * The web site on the public port (spec 11): pages rendered from the same snapshot as the API, kept per data version and
 * language; assets and small files; errors as pages.
 *
 *     path ─► asset, icon, screenshot ─► sent                                     quota is not counted
 *          └─► page ─► quota `page` ─► kept body, or render ─► response           429, 404, 500: pages, too
 *          └─► POST /submit ─► quota `submit` ─► 303 to the detection, or the form with its error
 */
import { getClientAddress, truncatedClient } from '../api/client-address.ts'
import { ApiError, retryAfter } from '../api/errors.ts'
import { type Quota, type QuotaKind, Quotas } from '../api/quota.ts'
import { type ApiRequest, readRequest } from '../api/request.ts'
import { RequestBody } from '../api/request-body.ts'
import { ApiResponse, type ResponseContent, toContent } from '../api/response.ts'
import type { HttpRequest, HttpResponse } from '../api/sockets.ts'
import { type Asset, Assets } from './assets.ts'
import { siteHeaders } from './headers.ts'
import { type Html, html } from './html.ts'
import { isMediaPath, MEDIA, MEDIA_PATTERN, mediaContent } from './media.ts'
import type { WebSiteOptions } from './options.ts'
import { chooseLanguage, href, type Page } from './page.ts'
import { notFoundPage, noticePage } from './pages/errors.ts'
import { type PageCall, type Route, Routes, sendPage } from './routes.ts'

const ASSET_MAX_AGE_SEC = 31_536_000
const ICON_MAX_AGE_SEC = 86_400
const NOT_READY_SEC = 5

interface Arrival {
  request: ApiRequest
  reply: ApiResponse
  page: Page
  route: Route | null
  argument: string
  ip: string
  requestBody: RequestBody | null // of POST /submit
}

export class WebSite {
  private readonly options: WebSiteOptions
  private readonly quotas: Quotas
  private readonly assets = new Assets()
  private readonly routes: Routes
  private readonly headers

  constructor(options: WebSiteOptions) {
    this.options = options
    const { limiter, onQuotaFailure: onFailure, publicBaseUrl, supportEmail } = options
    this.quotas = new Quotas({ limiter, nowSec: () => Math.floor(options.nowMs() / 1_000), onFailure })
    const context = { assets: this.assets.getPath, publicBaseUrl, supportEmail }
    this.routes = new Routes(options, context, this.quotas)
    this.headers = siteHeaders(publicBaseUrl)
  }

  /** Handles one request; must be called within the callback of uWebSockets.js. */
  handle(res: HttpResponse, req: HttpRequest): void {
    const startMs = performance.now()
    const request = readRequest(req, res, this.options.address)
    const ip = getClientAddress(request, this.options.address)
    const isMedia = request.path.startsWith(MEDIA) && (request.method === 'GET' || request.method === 'HEAD')
    const reply = new ApiResponse(res, request, false, isMedia ? [] : this.headers)
    const asset = this.findAsset(request.path)
    const [route, argument] = asset || isMedia ? [null, ''] : this.routes.find(request)
    const length = Number(request.headers['content-length'] || Number.NaN)
    const requestBody = route?.method === 'POST' ? new RequestBody(res, length) : null
    reply.onEnd = () => {
      requestBody?.cancel()
      const ms = Math.round(performance.now() - startMs)
      const pattern = asset ? '/assets' : isMedia ? MEDIA_PATTERN : (route?.pattern ?? 'none')
      const client = truncatedClient(ip)
      const { requestId, status } = reply
      this.options.onRequest?.({ requestId, client, route: pattern, method: toMethod(request), status, ms })
    }
    const page = chooseLanguage(readLanguage(request.query), request.headers['accept-language'])
    const arrival = { request, reply, page, route, argument, ip, requestBody }
    try {
      if (asset) reply.send(assetAnswer(asset, request.path.startsWith('/assets/')))
      else if (isMedia) this.sendMedia(arrival)
      else this.admit(arrival)
    } catch (error) {
      this.fail(arrival, error)
    }
  }

  /** Pictures have headers of their own; 404 and 503 are pages, with the headers of pages. */
  private sendMedia(arrival: Arrival): void {
    const { request, reply, page } = arrival
    const { snapshot, images } = this.options
    const sendNotice = (content: ResponseContent) =>
      reply.send({ ...content, headers: [...this.headers, ...content.headers] })
    mediaContent(request.path, snapshot(), images)
      .then((content) => {
        if (content) reply.send(content)
        else sendNotice(sendPage(notFoundPage(page, this.routes.context, snapshot(), null), { status: 404 }))
      })
      .catch((error) => {
        if (!(error instanceof ApiError)) this.logDefect(reply, error)
        sendNotice(error instanceof ApiError ? this.notReady(page) : this.internalError(arrival))
      })
  }

  private notReady(page: Page): ResponseContent {
    const { notReady: title, notReadyText: text } = page.m.errors
    const notice = noticePage(page, this.routes.context, { title, text, refreshSec: NOT_READY_SEC })
    return sendPage(notice, { status: 503, headers: retryAfter(NOT_READY_SEC) })
  }

  private internalError({ page, reply }: Arrival): ResponseContent {
    const title = page.m.errors.internal
    const text = page.m.errors.internalText(reply.requestId)
    return sendPage(noticePage(page, this.routes.context, { title, text }), { status: 500 })
  }

  private logDefect(reply: ApiResponse, error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.options.log('error', `monitor page ${reply.requestId} failed: ${text}`)
  }

  private admit(arrival: Arrival): void {
    const { reply, route, ip } = arrival
    const kind: QuotaKind = route?.method === 'POST' ? 'submit' : 'page'
    this.quotas.take(kind, { ip, key: null }, (quota) => {
      if (reply.isDone) return
      reply.quota = quota
      try {
        const content = this.respond(arrival, quota)
        if (content instanceof Promise) {
          content.then((each) => reply.send(each)).catch((error) => this.fail(arrival, error))
        } else reply.send(content)
      } catch (error) {
        this.fail(arrival, error)
      }
    })
  }

  private respond(arrival: Arrival, quota: Quota): ResponseContent | Promise<ResponseContent> {
    const { request, page, route, argument, ip, requestBody } = arrival
    const { m, f } = page
    const { context } = this.routes
    if (quota.isOver) {
      this.options.onLimited?.(quota.class)
      const describe = quota.class === 'submit' ? m.errors.tooManyDetections : m.errors.tooManyText
      const text = describe(f, quota.limit, quota.afterSec)
      const notice = noticePage(page, context, { title: m.errors.tooMany, text, refreshSec: quota.afterSec })
      return sendPage(notice, { status: 429, headers: retryAfter(quota.afterSec) })
    }
    const snapshot = this.options.snapshot()
    if (route === null) {
      const allowed = isMediaPath(request.path) ? 'GET, HEAD' : this.routes.listMethods(request.path)
      if (allowed === null) return sendPage(notFoundPage(page, context, snapshot, null), { status: 404 })
      const notice = noticePage(page, context, { title: m.errors.method, text: m.errors.methodText(allowed) })
      return sendPage(notice, { status: 405, headers: [['Allow', allowed]] })
    }
    if (snapshot === null) {
      return this.notReady(page)
    }
    const call: PageCall = { request, page, snapshot, argument, ip, requestBody, quota }
    return route.render(call)
  }

  /** An error other than ApiError is a defect: logged with the request's id. */
  private fail(arrival: Arrival, error: unknown): void {
    const { reply, page } = arrival
    if (reply.isDone) return
    const { m } = page
    const { context } = this.routes
    if (error instanceof ApiError && error.status < 500) {
      const page404 = this.describeMissing(arrival, error)
      const isFilter = error.code === 'invalid_parameter'
      const title = isFilter ? m.errors.badFilter : m.errors.badRequest
      const detail = html`${m.errors.detail} <span lang="en">${error.message}</span>`
      const text = isFilter ? html`${m.errors.badFilterText} <span class="sub">${detail}</span>` : detail
      const content = page404 ?? noticePage(page, context, { title, text })
      reply.send(sendPage(content, { status: error.status, headers: error.headers }))
      return
    }
    this.logDefect(reply, error)
    reply.send(this.internalError(arrival))
  }

  /** The page of a 404 or 410; null for other errors. */
  private describeMissing({ page, route, argument }: Arrival, { status }: ApiError): Html | null {
    if (status !== 404 && status !== 410) return null
    const { context } = this.routes
    if (route?.pattern === '/detections/{id}') {
      const { noDetection: title, noDetectionText: text } = page.m.errors
      const link = html`<a href="${href(page, '/submit')}">${page.m.errors.detectAgain}</a>`
      return noticePage(page, context, { title, text, link })
    }
    const slug = route?.pattern === '/sites/{slug}' ? argument : null
    return notFoundPage(page, context, this.options.snapshot(), slug)
  }

  private findAsset(path: string): Asset | undefined {
    return path === '/favicon.svg' ? this.assets.get('favicon.svg') : this.assets.find(path)
  }
}

function assetAnswer({ body, type }: Asset, isHashed: boolean): ResponseContent {
  const cacheControl = isHashed
    ? `public, max-age=${ASSET_MAX_AGE_SEC}, immutable`
    : `public, max-age=${ICON_MAX_AGE_SEC}`
  return toContent(body, { type, cacheControl, hasEtag: true })
}

function readLanguage(query: string): string | undefined {
  return new URLSearchParams(query).get('lang') ?? undefined
}

function toMethod({ method }: ApiRequest): string {
  return ['GET', 'HEAD', 'POST'].includes(method) ? method : 'other'
}
