/**
 * The web site on the public port (spec 11): pages rendered from the same snapshot as the API, once per data version and
 * language; assets; errors as pages.
 *
 *     path ─► asset, icon ─► served                                              quota is not counted
 *          └─► page ─► quota `page` ─► cached body, or render ─► response        429, 404, 500: pages, too
 */
import type { Log } from '../../engine/runtime/messages.ts'
import { Bodies, Body } from '../api/bodies.ts'
import { type AddressOptions, getClientAddress, truncatedClient } from '../api/client-address.ts'
import { ApiError, retryAfter } from '../api/errors.ts'
import type { RequestLine } from '../api/options.ts'
import { readQuery } from '../api/query.ts'
import { type Quota, type QuotaEngine, type QuotaKind, Quotas } from '../api/quota.ts'
import { type ApiRequest, readRequest } from '../api/request.ts'
import { ApiResponse, answer, type ResponseContent } from '../api/response.ts'
import { ENDPOINTS } from '../api/schema/endpoints.ts'
import { canonicalQuery } from '../api/site-list.ts'
import type { HttpRequest, HttpResponse } from '../api/sockets.ts'
import type { Snapshot } from '../storage/snapshot.ts'
import { type Asset, Assets } from './assets.ts'
import type { SiteContext } from './frame.ts'
import { siteHeaders } from './headers.ts'
import type { Html } from './html.ts'
import { chooseLanguage, type Page } from './page.ts'
import { notFoundPage, noticePage } from './pages/errors.ts'
import { listPage, PAGE_SIZE } from './pages/list.ts'

const HTML = 'text/html; charset=utf-8'
const PAGE_MAX_AGE_SEC = 15
const ASSET_MAX_AGE_SEC = 31_536_000
const CACHE_BYTES_MAX = 32 * 1024 * 1024

export interface WebSiteOptions {
  limiter: QuotaEngine
  nowMs: () => number
  snapshot: () => Snapshot | null // null = not loaded
  address: AddressOptions
  publicBaseUrl: string
  supportEmail: string
  isSharedCache: boolean
  log: Log
  onRequest?: (line: RequestLine) => void
  onLimited?: (quotaClass: string) => void
  onQuotaFailure?: (kind: QuotaKind) => void
}

interface PageCall {
  request: ApiRequest
  page: Page
  snapshot: Snapshot
  argument: string // of the path
}

interface Route {
  pattern: string
  match: (path: string) => string | null // the argument; '' without one
  render: (call: PageCall) => ResponseContent | Promise<ResponseContent>
}

export class WebSite {
  private readonly options: WebSiteOptions
  private readonly quotas: Quotas
  private readonly assets = new Assets()
  private readonly bodies = new Bodies(CACHE_BYTES_MAX)
  private readonly context: SiteContext
  private readonly headers
  private readonly routes: readonly Route[]

  constructor(options: WebSiteOptions) {
    this.options = options
    const { limiter, onQuotaFailure: onFailure, publicBaseUrl, supportEmail } = options
    this.quotas = new Quotas({ limiter, nowSec: () => this.nowSec(), onFailure })
    this.context = { assets: this.assets.getPath, publicBaseUrl, supportEmail }
    this.headers = siteHeaders(publicBaseUrl)
    this.routes = [{ pattern: '/', match: exactly('/'), render: (call) => this.list(call) }]
  }

  /** Whether a path belongs to the web site; others are answered by the caller. */
  handle(res: HttpResponse, req: HttpRequest): void {
    const startMs = performance.now()
    const request = readRequest(req, res, this.options.address)
    const ip = getClientAddress(request, this.options.address)
    const reply = new ApiResponse(res, request, false, this.headers)
    const asset = this.findAsset(request.path)
    const route = asset ? null : this.findRoute(request.path)
    reply.onEnd = () =>
      this.ended(reply, request, asset ? '/assets' : (route?.[0].pattern ?? 'none'), ip, startMs)
    const page = chooseLanguage(readLanguage(request.query), request.headers['accept-language'])
    try {
      if (asset) reply.send(assetAnswer(asset, request.path.startsWith('/assets/')))
      else
        this.quotas.take('page', { ip, key: null }, (quota) =>
          this.decided(reply, request, page, route, quota),
        )
    } catch (error) {
      this.fail(reply, page, error)
    }
  }

  private decided(
    reply: ApiResponse,
    request: ApiRequest,
    page: Page,
    route: readonly [Route, string] | null,
    quota: Quota,
  ): void {
    if (reply.isDone) return
    reply.quota = quota
    try {
      const answered = this.answer(request, page, route, quota)
      if (!(answered instanceof Promise)) reply.send(answered)
      else answered.then((each) => reply.send(each)).catch((error) => this.fail(reply, page, error))
    } catch (error) {
      this.fail(reply, page, error)
    }
  }

  private answer(
    request: ApiRequest,
    page: Page,
    route: readonly [Route, string] | null,
    quota: Quota,
  ): ResponseContent | Promise<ResponseContent> {
    const { m, f } = page
    if (quota.isOver) {
      this.options.onLimited?.(quota.class)
      const text = m.errors.tooManyText(f, quota.limit, quota.afterSec)
      const html = noticePage(page, this.context, {
        title: m.errors.tooMany,
        text,
        refreshSec: quota.afterSec,
      })
      return pageAnswer(html, 429, retryAfter(quota.afterSec))
    }
    const snapshot = this.options.snapshot()
    if (route === null) return pageAnswer(notFoundPage(page, this.context, snapshot, null), 404)
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      const html = noticePage(page, this.context, { title: m.errors.method, text: request.path })
      return pageAnswer(html, 405, [['Allow', 'GET, HEAD']])
    }
    if (snapshot === null) {
      const { notReady: title, notReadyText: text } = m.errors
      return pageAnswer(noticePage(page, this.context, { title, text, refreshSec: 5 }), 503, retryAfter(5))
    }
    const [{ render }, argument] = route
    return render({ request, page, snapshot, argument })
  }

  private list({ request, page, snapshot }: PageCall): ResponseContent {
    const query = {
      ...readQuery(dropEmpty(request.query), LIST_PARAMETERS),
      limit: PAGE_SIZE,
      include: undefined,
    }
    return this.cached(page, snapshot, `/?${canonicalQuery(query)}`, () =>
      listPage(page, this.context, snapshot, query),
    )
  }

  /** Rendered once per data version, language and address. */
  private cached(page: Page, snapshot: Snapshot, address: string, render: () => Html): ResponseContent {
    const key = `${snapshot.version} ${page.language} ${page.isExplicit} ${address}`
    return this.kept(this.bodies.getText(key, () => String(render())))
  }

  private kept(body: Body): ResponseContent {
    const scope = this.options.isSharedCache ? 'public' : 'private'
    return answer(body, {
      type: HTML,
      cacheControl: `${scope}, max-age=${PAGE_MAX_AGE_SEC}`,
      hasEtag: true,
      headers: [],
    })
  }

  /** An error other than ApiError is a defect: logged with the request's id. */
  private fail(reply: ApiResponse, page: Page, error: unknown): void {
    if (reply.isDone) return
    const { m } = page
    if (error instanceof ApiError && error.status < 500) {
      const html = noticePage(page, this.context, { title: m.errors.badFilter, text: error.message })
      reply.send(pageAnswer(html, error.status, error.headers))
      return
    }
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.options.log('error', `monitor page ${reply.requestId} failed: ${text}`)
    const html = noticePage(page, this.context, {
      title: m.errors.internal,
      text: m.errors.internalText(reply.requestId),
    })
    reply.send(pageAnswer(html, 500))
  }

  private findAsset(path: string): Asset | undefined {
    return path === '/favicon.svg' ? this.assets.get('favicon.svg') : this.assets.find(path)
  }

  private findRoute(path: string): readonly [Route, string] | null {
    for (const route of this.routes) {
      const argument = route.match(path)
      if (argument !== null) return [route, argument]
    }
    return null
  }

  private ended(
    reply: ApiResponse,
    { method }: ApiRequest,
    route: string,
    ip: string,
    startMs: number,
  ): void {
    const ms = Math.round(performance.now() - startMs)
    const { requestId, status } = reply
    this.options.onRequest?.({ requestId, client: truncatedClient(ip), route, method, status, ms })
  }

  private nowSec(): number {
    return Math.floor(this.options.nowMs() / 1_000)
  }
}

const LIST_PARAMETERS = ENDPOINTS.find(({ id }) => id === 'listSites')!.parameters.filter(
  ({ name }) => name !== 'limit' && name !== 'include',
)

function exactly(wanted: string): Route['match'] {
  return (path) => (path === wanted ? '' : null)
}

function pageAnswer(html: Html, status: number, headers: ResponseContent['headers'] = []): ResponseContent {
  return answer(new Body(String(html)), { status, type: HTML, headers })
}

function assetAnswer({ body, type }: Asset, isHashed: boolean): ResponseContent {
  const cacheControl = isHashed ? `public, max-age=${ASSET_MAX_AGE_SEC}, immutable` : 'public, max-age=86400'
  return answer(body, { type, cacheControl, hasEtag: true })
}

/** A form sends its empty fields, too. */
function dropEmpty(query: string): string {
  return query
    .split('&')
    .filter((part) => part !== '' && !part.endsWith('='))
    .join('&')
}

function readLanguage(query: string): string | undefined {
  return new URLSearchParams(query).get('lang') ?? undefined
}
