/** Every address of the web site, and how it is rendered. Bodies are kept per data version, language and address. */
import { Bodies, Body } from '../api/bodies.ts'
import { readChangelog } from '../api/changelog.ts'
import { ApiError } from '../api/errors.ts'
import { readQuery } from '../api/query.ts'
import type { Quota, Quotas } from '../api/quota.ts'
import type { ApiRequest } from '../api/request.ts'
import type { RequestBody } from '../api/request-body.ts'
import { type ResponseContent, toContent } from '../api/response.ts'
import { ENDPOINTS } from '../api/schema/endpoints.ts'
import { siteIndex } from '../api/site-index.ts'
import { canonicalQuery } from '../api/site-list.ts'
import { type Detection, detectionView, isFinished } from '../detections/detection.ts'
import { parseSubmission } from '../detections/submission.ts'
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import type { SiteContext } from './frame.ts'
import { FORM_PATH } from './headers.ts'
import { type Content, type Html, html } from './html.ts'
import type { WebSiteOptions } from './options.ts'
import { href, type Page } from './page.ts'
import { boardsPage } from './pages/boards.ts'
import { changelogFeed, changelogPage } from './pages/changelog.ts'
import { type DetectionBody, detectionPage } from './pages/detection.ts'
import { noticePage } from './pages/errors.ts'
import { listPage, PAGE_SIZE } from './pages/list.ts'
import { aboutProbePage, METHODOLOGY_PATH, methodologyPage, PROBE_PATH } from './pages/method.ts'
import { checkFields, referencePage, toApiPath } from './pages/reference.ts'
import { sitePage } from './pages/site.ts'
import { readSiteData } from './pages/site-data.ts'
import { type SubmitState, submitPage } from './pages/submit.ts'
import { badge, manifest, robots, securityTxt, sitemap } from './well-known.ts'

const HTML = 'text/html; charset=utf-8'
const PAGE_MAX_AGE_SEC = 15
const TEXT_MAX_AGE_SEC = 3_600
const BADGE_MAX_AGE_SEC = 300
const CACHE_BYTES_MAX = 32 * 1024 * 1024
const URL_CHARS_MAX = 2_048 // of the form's field
/** A URL of that length in which every character is sent as three, and the other fields. */
export const FORM_BYTES_MAX = 3 * URL_CHARS_MAX + 1_024

export interface PageCall {
  request: ApiRequest
  page: Page
  snapshot: Snapshot
  argument: string // of the path
  ip: string
  requestBody: RequestBody | null // of POST
  quota: Quota
}

export interface Route {
  method: 'GET' | 'POST'
  pattern: string // with at most one parameter: /sites/{slug}
  isFile?: boolean // the same for every client and language: without the headers of one client's quota
  render: (call: PageCall) => ResponseContent | Promise<ResponseContent>
}

export class Routes {
  readonly context: SiteContext
  private readonly options: WebSiteOptions
  private readonly quotas: Quotas
  private readonly bodies = new Bodies(CACHE_BYTES_MAX)
  private readonly changelog
  private readonly all: readonly Route[]

  constructor(options: WebSiteOptions, context: SiteContext, quotas: Quotas) {
    this.options = options
    this.context = context
    this.quotas = quotas
    this.changelog = options.changelog ?? readChangelog()
    const get = (pattern: string, render: Route['render']): Route => ({ method: 'GET', pattern, render })
    const file = (pattern: string, render: Route['render']): Route => ({
      ...{ method: 'GET', isFile: true },
      ...{ pattern, render },
    })
    this.all = [
      get('/', (call) => this.list(call)),
      get('/sites/{slug}', (call) => this.site(call)),
      get('/leaderboard', (call) => this.data(call, () => boardsPage(call.page, context, call.snapshot))),
      get(FORM_PATH, (call) => this.form(call)),
      { method: 'POST', pattern: FORM_PATH, render: (call) => this.submit(call) },
      get('/detections/{id}', (call) => this.detection(call)),
      get(METHODOLOGY_PATH, (call) => this.lasting(call, () => methodologyPage(call.page, context))),
      get(PROBE_PATH, (call) => this.lasting(call, () => aboutProbePage(call.page, context, this.probe))),
      get('/changelog', (call) =>
        this.lasting(call, () => changelogPage(call.page, context, this.changelog)),
      ),
      get('/docs', (call) => {
        const slug = call.snapshot.sites[0]?.slug ?? null // of the examples
        return this.lasting(call, () => referencePage(call.page, context, slug), `${slug}`)
      }),
      get('/docs/try/{id}', ({ request, argument }) => openInApi(argument, request.query)),
      file('/changelog.atom', () =>
        this.file(
          'application/atom+xml; charset=utf-8',
          String(changelogFeed(options.publicBaseUrl, this.changelog)),
        ),
      ),
      file('/robots.txt', () => this.file('text/plain; charset=utf-8', robots(options.publicBaseUrl))),
      file('/manifest.webmanifest', () => this.file('application/manifest+json', manifest())),
      file('/sitemap.xml', (call) => this.sitemap(call)),
      file('/.well-known/security.txt', () => this.security()),
      file('/badge/{slug}.svg', (call) => this.badge(call)),
    ]
  }

  find({ path, method }: ApiRequest): readonly [Route | null, string] {
    const wanted = method === 'HEAD' ? 'GET' : method
    for (const route of this.all) {
      const argument = route.method === wanted ? matchPath(route.pattern, path) : null
      if (argument !== null) return [route, argument]
    }
    return [null, '']
  }

  /** The value of Allow for a path that exists, else null. */
  listMethods(path: string): string | null {
    const methods = this.all
      .filter(({ pattern }) => matchPath(pattern, path) !== null)
      .map(({ method }) => method)
    if (methods.length === 0) return null
    return methods.includes('POST') ? 'GET, HEAD, POST' : 'GET, HEAD'
  }

  private get probe() {
    return { intervalSec: this.options.probeIntervalSec, userAgent: this.options.userAgent }
  }

  private list(call: PageCall): ResponseContent {
    const { request, page, snapshot } = call
    const query = {
      ...readQuery(dropEmpty(request.query), LIST_PARAMETERS, 'ignored'),
      limit: PAGE_SIZE,
      include: undefined,
    }
    return this.data(call, () => listPage(page, this.context, snapshot, query), canonicalQuery(query))
  }

  private async site(call: PageCall): Promise<ResponseContent> {
    const { page, snapshot, argument } = call
    const site = findSite(snapshot, argument)
    const { slug } = site
    if (slug !== argument) {
      const to = href(page, `/sites/${slug}`)
      return redirect(to, 308)
    }
    const key = `${snapshot.version} ${page.language} ${page.isExplicit} ${slug}`
    const body = await this.bodies.getTextLater(key, async () => {
      const data = await readSiteData(snapshot, site, this.options.details, this.options.publicBaseUrl)
      const isPictureDue = this.options.hasScreenshots?.() ?? false
      return String(sitePage(page, this.context, snapshot, site, data, isPictureDue))
    })
    return this.kept(body)
  }

  private async form(
    call: PageCall,
    sent: Pick<SubmitState, 'url' | 'error'> = {},
    { status, headers }: Pick<ApiError, 'status' | 'headers'> = { status: 200, headers: [] },
  ): Promise<ResponseContent> {
    const { page, snapshot, ip } = call
    const quota = await new Promise<Quota>((resolve) =>
      this.quotas.peek('submit', { ip, key: null }, resolve),
    )
    const state = { quota, ...sent, isEnabled: this.options.hasDetections }
    return sendPage(submitPage(page, this.context, snapshot, state), { status, headers })
  }

  private async submit(call: PageCall): Promise<ResponseContent> {
    const { request, page, requestBody, ip } = call
    const { m } = page
    if (!this.isFromHere(request)) {
      const html = noticePage(page, this.context, { title: m.submit.problem, text: m.submit.crossSite })
      return sendPage(html, { status: 403 })
    }
    const body = await new Promise<Buffer | ApiError>((resolve) => requestBody!.whenDone(resolve))
    if (body instanceof ApiError) throw body
    const url = new URLSearchParams(body.toString('utf8')).get('url')?.trim() ?? ''
    try {
      if (!this.options.hasDetections)
        throw new ApiError('detections_disabled', 'detections are switched off')
      if (call.quota.hasFailed) throw new ApiError('not_ready', 'the quota is not known')
      const target = parseSubmission(Buffer.from(JSON.stringify({ url })), this.options.checkUrl)
      const detection = await this.options.detections.submit(target, ip)
      const to = href(page, `/detections/${detection.id}`)
      return redirect(to, 303)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const text = this.describeRefusal(page, url, error)
      return this.form(call, { url: url.slice(0, URL_CHARS_MAX), error: text }, error)
    }
  }

  /** Why a submission was refused, in the words of the page; what is not known here has the API's own text as its detail. */
  private describeRefusal({ m }: Page, url: string, { code, message }: ApiError): Content {
    const { refused, refusedOther, refusedUrl } = m.submit
    if (code === 'invalid_url' || code === 'target_not_allowed') {
      const checked = this.options.checkUrl(url)
      const reason = 'refusal' in checked ? checked.refusal.reason : ''
      if (Object.hasOwn(refusedUrl, reason)) return refusedUrl[reason]
      return code === 'invalid_url' ? refusedUrl.form : refusedUrl.address
    }
    if (Object.hasOwn(refused, code)) return refused[code]
    return html`${refusedOther} <span class="muted">${m.errors.detail} <span lang="en">${message}</span></span>`
  }

  /**
   * Whether a form was sent from this site. Sec-Fetch-Site decides, which browsers send over https and to this machine; over
   * plain http the Origin does. Without PUBLIC_BASE_URL it must name the host that was asked. `null` is refused. Clients
   * that send no Origin are not browsers and are accepted.
   */
  isFromHere({ headers }: ApiRequest): boolean {
    const { 'sec-fetch-site': site, origin, host } = headers
    if (site !== '') return site === 'same-origin' || site === 'none'
    if (origin === '') return true
    if (!URL.canParse(origin)) return false
    const sender = new URL(origin)
    const { publicBaseUrl } = this.options
    if (publicBaseUrl === '') return sender.host !== '' && sender.host === host.toLowerCase()
    return sender.origin === new URL(publicBaseUrl).origin
  }

  private async detection({ page, snapshot, argument }: PageCall): Promise<ResponseContent> {
    const { detections } = this.options
    const detection: Detection = await detections.find(argument)
    const slug = siteIndex(snapshot).slugOfHost(detection.host.replace(/\.$/, ''))
    const view = detectionView(detection, detections.getPosition(detection), slug) as DetectionBody
    const html = detectionPage(page, this.context, snapshot, view)
    return sendPage(html, { cacheControl: isFinished(detection) ? 'private, max-age=60' : 'no-store' })
  }

  private sitemap({ snapshot }: PageCall): ResponseContent {
    const { publicBaseUrl } = this.options
    if (publicBaseUrl === '') throw new ApiError('not_found', 'PUBLIC_BASE_URL is not set')
    const body = this.bodies.getText(`${snapshot.version} sitemap`, () =>
      String(sitemap(publicBaseUrl, snapshot)),
    )
    return toContent(body, { type: 'application/xml; charset=utf-8', ...cacheFor(TEXT_MAX_AGE_SEC) })
  }

  private security(): ResponseContent {
    const { supportEmail, nowMs } = this.options
    if (supportEmail === '') throw new ApiError('not_found', 'SUPPORT_EMAIL is not set')
    return this.file('text/plain; charset=utf-8', securityTxt(supportEmail, nowMs()))
  }

  private badge({ snapshot, argument }: PageCall): ResponseContent {
    const site = findSite(snapshot, argument)
    const body = this.bodies.getText(`badge ${site.tier}`, () => String(badge(site.tier)))
    return toContent(body, { type: 'image/svg+xml', ...cacheFor(BADGE_MAX_AGE_SEC) })
  }

  /** A page of the data: rendered once per data version, language and address. */
  private data({ page, snapshot, request }: PageCall, render: () => Html, query = ''): ResponseContent {
    const key = `${snapshot.version} ${page.language} ${page.isExplicit} ${request.path}?${query}`
    return this.kept(this.bodies.getText(key, () => String(render())))
  }

  /** A page that does not depend on the data, or only on `input`. */
  private lasting({ page, request }: PageCall, render: () => Html, input = ''): ResponseContent {
    const key = `${page.language} ${page.isExplicit} ${request.path} ${input}`
    return this.kept(this.bodies.getText(key, () => String(render())))
  }

  private kept(body: Body): ResponseContent {
    const scope = this.options.isSharedCache ? 'public' : 'private'
    return toContent(body, {
      type: HTML,
      cacheControl: `${scope}, max-age=${PAGE_MAX_AGE_SEC}`,
      hasEtag: true,
    })
  }

  private file(type: string, text: string): ResponseContent {
    return toContent(
      this.bodies.getText(`${type} ${text}`, () => text),
      { type, ...cacheFor(TEXT_MAX_AGE_SEC) },
    )
  }
}

const LIST_PARAMETERS = ENDPOINTS.find(({ id }) => id === 'listSites')!.parameters.filter(
  ({ name }) => name !== 'limit' && name !== 'include',
)

/** A page that is rendered for this request alone. */
export function sendPage(page: Html, more: Partial<ResponseContent> = {}): ResponseContent {
  return sendBody(new Body(String(page)), more)
}

export function sendBody(body: Body, more: Partial<ResponseContent> = {}): ResponseContent {
  return toContent(body, { type: HTML, ...more })
}

/** The site of a slug or alias. Throws ApiError. */
function findSite(snapshot: Snapshot, argument: string): SiteState {
  const slug = Object.hasOwn(snapshot.aliases, argument) ? snapshot.aliases[argument] : argument
  const site = siteIndex(snapshot).bySlug(slug)
  if (!site) throw new ApiError('site_not_found', 'there is no site with this slug')
  return site
}

/** With a short body, without the address, which may be text of the request: one without would have to state its length. */
export function redirect(to: string, status: 301 | 303 | 308): ResponseContent {
  const page = html`<!doctype html><title>Moved</title>`
  return sendPage(page, { status, headers: [['Location', to]] })
}

/** The forms of the reference, for browsers without scripts: only to paths of the API on this origin. */
function openInApi(operationId: string, query: string): ResponseContent {
  const fields = new URLSearchParams(query)
  checkFields(operationId, fields)
  const path = toApiPath(operationId, fields)
  if (path === null) throw new ApiError('not_found', 'there is no such operation')
  return redirect(path, 303)
}

function cacheFor(maxAgeSec: number): Partial<ResponseContent> {
  return { cacheControl: `public, max-age=${maxAgeSec}`, hasEtag: true }
}

/** The parameter of a path that matches a pattern, '' for a pattern without one, null for another path. */
export function matchPath(pattern: string, path: string): string | null {
  const start = pattern.indexOf('{')
  if (start < 0) return path === pattern ? '' : null
  const [before, after] = [pattern.slice(0, start), pattern.slice(pattern.indexOf('}') + 1)]
  const argument = path.slice(before.length, path.length - after.length)
  const isMatch =
    path.startsWith(before) && path.endsWith(after) && argument !== '' && !argument.includes('/')
  return isMatch ? argument : null
}

/** A form sends its empty fields, too. */
function dropEmpty(query: string): string {
  return query
    .split('&')
    .filter((part) => part !== '' && !part.endsWith('='))
    .join('&')
}
