/**
 * The web site on the public port (spec 11): pages rendered from the same snapshot as the API, kept per data version and
 * language; assets and small files; errors as pages.
 *
 *     path ─► asset, icon, screenshot ─► sent                                     quota is not counted
 *          └─► page ─► quota `page` ─► kept body, or render ─► response           429, 404, 500: pages, too
 *          └─► POST /submit ─► quota `submit` ─► 303 to the detection, or the form with its error
 */

import { Bodies, type Body } from '../api/bodies.ts'
import { getClientAddress, truncatedClient } from '../api/client-address.ts'
import { ApiError, type Headers, retryAfter } from '../api/errors.ts'
import { type Quota, type QuotaKind, Quotas } from '../api/quota.ts'
import { type ApiRequest, readRequest } from '../api/request.ts'
import { BODY_BYTES_MAX, RequestBody } from '../api/request-body.ts'
import { ApiResponse, type ResponseContent, toContent } from '../api/response.ts'
import type { HttpRequest, HttpResponse } from '../api/sockets.ts'
import { type Asset, Assets } from './assets.ts'
import { FORM_PATH, siteHeaders } from './headers.ts'
import { type Html, html } from './html.ts'
import { isMediaPath, MEDIA, MEDIA_PATTERN, mediaContent } from './media.ts'
import type { WebSiteOptions } from './options.ts'
import { chooseLanguage, createPage, href, type Page } from './page.ts'
import { notFoundPage, noticePage, toWord } from './pages/errors.ts'
import { FORM_BYTES_MAX, type PageCall, type Route, Routes, redirect, sendBody, sendPage } from './routes.ts'

const ASSET_MAX_AGE_SEC = 31_536_000
const ICON_MAX_AGE_SEC = 86_400
const NOT_READY_SEC = 5
const ICON_PATH = '/favicon.ico' // asked by clients that read no page
const NOTICES_BYTES_MAX = 4 * 1_024 * 1_024 // about 500 notices with their compressed forms; more are rendered again

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
  private readonly notices = new Bodies(NOTICES_BYTES_MAX)

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
    request.path = trimSlash(request.path)
    const ip = getClientAddress(request, this.options.address)
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    const isMedia = isRead && request.path.startsWith(MEDIA)
    const asset = isRead ? this.findAsset(request.path) : undefined
    const [route, argument] = asset || isMedia ? [null, ''] : this.routes.find(request)
    const reply = new ApiResponse(
      res,
      request,
      false,
      isMedia ? [] : this.getHeaders(request, asset ?? route),
    )
    const length = Number(request.headers['content-length'] || Number.NaN)
    const requestBody =
      route?.method === 'POST' ? new RequestBody(res, length, undefined, FORM_BYTES_MAX) : null
    if (requestBody === null && length > BODY_BYTES_MAX) reply.mustClose = true // the body is not read
    reply.onEnd = () => {
      requestBody?.cancel()
      const ms = Math.round(performance.now() - startMs)
      const pattern = asset ? '/assets' : isMedia ? MEDIA_PATTERN : (route?.pattern ?? 'none')
      const client = truncatedClient(ip)
      const { requestId, status } = reply
      this.options.onRequest?.({ requestId, client, route: pattern, method: toMethod(request), status, ms })
    }
    const page = asset
      ? createPage('en', false) // not read
      : chooseLanguage(readLanguage(request.query), request.headers['accept-language'])
    const arrival = { request, reply, page, route, argument, ip, requestBody }
    try {
      if (asset) reply.send(assetAnswer(asset, request.path.startsWith('/assets/')))
      else if (isMedia) this.sendMedia(arrival)
      else if (isRead && request.path === ICON_PATH) reply.send(redirect('/favicon.svg', 301))
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
      reply.send({ ...content, headers: [...this.headers.pages, ...content.headers] })
    mediaContent(request.path, snapshot(), images)
      .then((content) => {
        if (content) reply.send(content)
        else sendNotice(this.notFound(page, null))
      })
      .catch((error) => {
        if (!(error instanceof ApiError)) this.logDefect(reply, error)
        sendNotice(error instanceof ApiError ? this.notReady(page) : this.internalError(arrival))
      })
  }

  /** Kept per language and text: clients beyond their quota are answered for the price of a lookup. */
  private notice({ language, isExplicit }: Page, text: string, render: () => Html): Body {
    return this.notices.getText(`${language} ${isExplicit} ${text}`, () => String(render()))
  }

  /** `slug`: of a site that is not listed; null for other addresses. */
  private notFound(page: Page, slug: string | null): ResponseContent {
    const snapshot = this.options.snapshot()
    const word = slug === null ? null : toWord(slug)
    const key = word === null ? '404' : `404 ${snapshot?.version} ${word}`
    const body = this.notice(page, key, () => notFoundPage(page, this.routes.context, snapshot, word))
    return sendBody(body, { status: 404 })
  }

  /** The value of Allow for a path that exists, else null. */
  private listMethods(path: string): string | null {
    const isRead = path === ICON_PATH || isMediaPath(path) || this.findAsset(path) !== undefined
    return isRead ? 'GET, HEAD' : this.routes.listMethods(path)
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
    const { request, reply, route, ip } = arrival
    // A form that will be refused costs a page: another site must not use up a visitor's submissions.
    const isSubmission = route?.method === 'POST' && this.routes.isFromHere(request)
    const kind: QuotaKind = isSubmission ? 'submit' : 'page'
    this.quotas.take(kind, { ip, key: null }, (quota) => {
      if (reply.isDone) return
      if (!route?.isFile || quota.isOver) reply.quota = quota
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
      const body = this.notice(page, `${quota.afterSec} ${text}`, () =>
        noticePage(page, context, { title: m.errors.tooMany, text, refreshSec: quota.afterSec }),
      )
      return sendBody(body, { status: 429, headers: retryAfter(quota.afterSec) })
    }
    const snapshot = this.options.snapshot()
    if (route === null) {
      const allowed = this.listMethods(request.path)
      if (allowed === null) return this.notFound(page, null)
      const body = this.notice(page, allowed, () =>
        noticePage(page, context, { title: m.errors.method, text: m.errors.methodText(allowed) }),
      )
      return sendBody(body, { status: 405, headers: [['Allow', allowed]] })
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
    if (error instanceof ApiError && error.mustClose) reply.mustClose = true
    const { m } = page
    const { context } = this.routes
    if (error instanceof ApiError && error.status < 500) {
      const missing = this.describeMissing(arrival, error)
      const isFilter = error.code === 'invalid_parameter'
      const title = isFilter ? m.errors.badFilter : m.errors.badRequest
      const detail = html`${m.errors.detail} <span lang="en">${error.message}</span>`
      const text = isFilter ? html`${m.errors.badFilterText} <span class="sub">${detail}</span>` : detail
      const { status, headers } = error
      const content = missing ?? sendPage(noticePage(page, context, { title, text }), { status })
      reply.send({ ...content, headers })
      return
    }
    this.logDefect(reply, error)
    reply.send(this.internalError(arrival))
  }

  /** The page of a 404 or 410; null for other errors. */
  private describeMissing({ page, route, argument }: Arrival, { status }: ApiError): ResponseContent | null {
    if (status !== 404 && status !== 410) return null
    if (route?.pattern === '/detections/{id}') {
      const { noDetection: title, noDetectionText: text } = page.m.errors
      const link = html`<a href="${href(page, '/submit')}">${page.m.errors.detectAgain}</a>`
      const body = this.notice(page, 'detection', () =>
        noticePage(page, this.routes.context, { title, text, link }),
      )
      return sendBody(body, { status })
    }
    return this.notFound(page, route?.pattern === '/sites/{slug}' ? argument : null)
  }

  private getHeaders({ path }: ApiRequest, found: Asset | Route | null): Headers {
    const isFile = found !== null && (!('pattern' in found) || found.isFile === true)
    return isFile ? this.headers.files : path === FORM_PATH ? this.headers.form : this.headers.pages
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

/** One slash at the end is as none (spec 1). */
function trimSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}

function readLanguage(query: string): string | undefined {
  return new URLSearchParams(query).get('lang') ?? undefined
}

function toMethod({ method }: ApiRequest): string {
  return ['GET', 'HEAD', 'POST'].includes(method) ? method : 'other'
}
