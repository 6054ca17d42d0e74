/**
 * A handler per operationId (schema/endpoints.ts), called once a client is within its quota.
 *
 *     snapshot   ── sites, boards, meta ──► body, built once per data version     details ── reader ──► the same, later
 *     detections ── submit, poll        ──► body of this request alone
 */
import { type Detection, detectionView, isFinished } from '../detections/detection.ts'
import { checkMediaType, parseSubmission } from '../detections/submission.ts'
import { HOUR_SEC } from '../scoring/bucket.ts'
import { timestamp } from '../scoring/probe-point.ts'
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import { Bodies, Body } from './bodies.ts'
import { type ChangelogEntry, readChangelog } from './changelog.ts'
import { CODES } from './codes.ts'
import { ApiError, HELP_LINK, type Headers } from './errors.ts'
import { leaderboard } from './leaderboard.ts'
import { measuredRegions } from './measured-regions.ts'
import { modelList } from './model-list.ts'
import type { ApiOptions } from './options.ts'
import type { Query } from './query.ts'
import type { Quota, QuotaClient, Quotas } from './quota.ts'
import type { ApiRequest } from './request.ts'
import type { RequestBody } from './request-body.ts'
import { type ApiResponse, type ResponseContent, toContent } from './response.ts'
import { ENDPOINTS } from './schema/endpoints.ts'
import { openApi } from './schema/openapi.ts'
import {
  type HistoryKind,
  siteDetail,
  siteHistory,
  siteIncidents,
  siteModels,
  siteScore,
} from './site-detail.ts'
import { siteIndex } from './site-index.ts'
import { canonicalQuery, pageLinks, siteList } from './site-list.ts'
import { timestampOrNull } from './site-view.ts'

const ONLINE_SEC = 60
const POLL_AFTER_SEC = 2
const BASE = '/api/v1'

export interface Call {
  request: ApiRequest
  reply: ApiResponse
  query: Query
  argument: string // of the path
  client: QuotaClient
  requestBody: RequestBody | null // of POST
}

export type Handler = (call: Call) => ResponseContent | Promise<ResponseContent>

export class Handlers {
  readonly byId: Readonly<Record<string, Handler>>
  private readonly options: ApiOptions
  private readonly quotas: Quotas
  private readonly bodies = new Bodies()
  private readonly changelog: readonly ChangelogEntry[]

  constructor(options: ApiOptions, quotas: Quotas) {
    this.options = options
    this.quotas = quotas
    this.changelog = options.changelog ?? readChangelog()
    this.byId = {
      getIndex: () => this.lasting('index', indexView, 15, [HELP_LINK]),
      listSites: (call) => this.listSites(call),
      getSite: (call) => this.getSite(call),
      getSiteScore: (call) => this.withSite(call, 'score', (_, site) => siteScore(site)),
      getSiteHistory: (call) =>
        this.withSite(call, `history ${canonicalQuery(call.query)}`, this.history(call)),
      getSiteModels: (call) =>
        this.withSite(call, 'models', (at, site) => siteModels(at, site, options.details)),
      getSiteIncidents: (call) =>
        this.withSite(call, 'incidents', (at, site) => siteIncidents(at, site, options.details)),
      listModels: (call) => this.listModels(call),
      getLeaderboard: (call) => this.getLeaderboard(call),
      submitDetection: (call) => this.submitDetection(call),
      getDetection: (call) => this.getDetection(call),
      getLimits: (call) => this.getLimits(call),
      getMeta: () =>
        this.dataHeaders(`meta ${this.options.hasScreenshots?.()}`, (snapshot) => this.metaView(snapshot)),
      getCodes: () => this.lasting('codes', () => ({ codes: CODES }), 15),
      getChangelog: () => this.lasting('changelog', () => ({ entries: this.changelog }), 15),
      getOpenApi: () => this.lasting('openapi', () => openApi({ ...options, isClosed: false }), 3_600),
    }
  }

  private listSites({ query }: Call): ResponseContent {
    const snapshot = this.snapshot()
    const key = `${snapshot.version} sites ${canonicalQuery(query)}`
    const body = this.bodies.get(key, () => siteList(snapshot, query))
    return this.cached(body, 15, pageLinks(`${BASE}/sites`, readTotal(body), query))
  }

  private listModels({ query }: Call): ResponseContent {
    const snapshot = this.snapshot()
    const key = `${snapshot.version} models ${canonicalQuery(query)}`
    const body = this.bodies.get(key, () => modelList(snapshot, query))
    return this.cached(body, 15, pageLinks(`${BASE}/models`, readTotal(body), query))
  }

  private getSite({ argument, query }: Call): Promise<ResponseContent> | ResponseContent {
    const snapshot = this.snapshot()
    const site = findSite(snapshot, argument)
    const headers: Headers =
      site.slug === argument ? [] : [['Content-Location', `${BASE}/sites/${site.slug}`]]
    const { details, publicBaseUrl } = this.options
    const history = HISTORIES[query.history as keyof typeof HISTORIES]
    const body = this.bodies.getLater(`${stateKey(snapshot, site)} ${history}`, () =>
      siteDetail(snapshot, site, history, details, publicBaseUrl),
    )
    return body.then((each) => this.cached(each, 15, headers))
  }

  private async withSite(
    { argument }: Call,
    what: string,
    view: (snapshot: Snapshot, site: SiteState) => unknown,
  ): Promise<ResponseContent> {
    const snapshot = this.snapshot()
    const site = findSite(snapshot, argument)
    const key = `${stateKey(snapshot, site)} ${what}`
    return this.cached(await this.bodies.getLater(key, async () => view(snapshot, site)), 15)
  }

  private history({ query }: Call) {
    const range = {
      days: Number(query.days),
      history: query.history as HistoryKind,
      region: query.region as 'cn' | 'overseas' | 'all',
    }
    return (snapshot: Snapshot, site: SiteState) => siteHistory(snapshot, site, range, this.options.details)
  }

  private getLeaderboard({ query }: Call): ResponseContent {
    const board = query.board as 'red' | 'black'
    const limit = Number(query.limit)
    return this.dataHeaders(`board ${board} ${limit}`, (snapshot) =>
      leaderboard(snapshot, board, limit, this.options),
    )
  }

  private async submitDetection({ request, requestBody, client }: Call): Promise<ResponseContent> {
    checkMediaType(request.headers['content-type'])
    const body = await new Promise<Buffer | ApiError>((resolve) => requestBody!.whenDone(resolve))
    if (body instanceof ApiError) throw body
    const { checkUrl, detections, hasDetections } = this.options
    const target = parseSubmission(body, checkUrl)
    if (!hasDetections) throw new ApiError('detections_disabled', 'detections are disabled')
    this.snapshot()
    const detection = await detections.submit(target, clientText(client))
    const location = ['Location', `${BASE}/detections/${detection.id}`] as const
    return this.detection(detection, [location], isFinished(detection) ? 200 : 202)
  }

  private async getDetection({ argument, query, client, reply }: Call): Promise<ResponseContent> {
    this.snapshot()
    const first = await this.options.detections.find(argument)
    const since = query.since === undefined ? first.version : Number(query.since)
    const waitMs = Number(query.wait) * 1_000
    if (waitMs === 0 || isFinished(first) || first.version > since) return this.detection(first)
    const current = await this.heldUntil(first, since, clientText(client), waitMs, reply)
    return this.detection(current)
  }

  /** Wakes on every change, and waits again while the version is not above `since`. */
  private async heldUntil(
    first: Detection,
    since: number,
    client: string,
    waitMs: number,
    reply: ApiResponse,
  ) {
    const { detections } = this.options
    const endMs = performance.now() + waitMs
    let current = first
    for (;;) {
      const leftMs = endMs - performance.now()
      if (leftMs <= 0 || reply.isDone || isFinished(current) || current.version > since) return current
      const before = detections.waiting.count
      let wasHeld = true
      await new Promise<void>((resolve) => {
        const release = detections.waiting.hold(first.id, client, leftMs, resolve)
        wasHeld = detections.waiting.count > before
        reply.onGone = release
      })
      reply.onGone = null
      current = await detections.find(first.id)
      if (!wasHeld) return current
    }
  }

  private detection(detection: Detection, headers: Headers = [], status = 200): ResponseContent {
    const position = this.options.detections.getPosition(detection)
    const host = detection.host.replace(/\.$/, '')
    const slug = siteIndex(this.snapshot()).slugOfHost(host)
    const body = new Body(JSON.stringify(detectionView(detection, position, slug)))
    const poll: Headers = isFinished(detection) ? [] : [['Retry-After', String(POLL_AFTER_SEC)]]
    return toContent(body, { status, headers: [...headers, ...poll] })
  }

  /** The quotas of this client; consumes nothing. */
  private async getLimits({ client }: Call): Promise<ResponseContent> {
    const kinds = ['read', 'submit', 'page'] as const
    const quotas = await Promise.all(
      kinds.map((kind) => new Promise<Quota>((resolve) => this.quotas.peek(kind, client, resolve))),
    )
    const limits = quotas.map(({ class: name, limit, remaining, windowSec, resetSec }) => ({
      class: name,
      limit,
      remaining,
      window_s: windowSec,
      reset: resetSec,
    }))
    const { supportEmail: contact } = this.options
    return toContent(
      new Body(JSON.stringify({ client: client.ip, key: client.key?.id ?? null, limits, contact })),
    )
  }

  private metaView(snapshot: Snapshot) {
    const { version, probeIntervalSec, supportEmail, publicBaseUrl } = this.options
    const vantages = snapshot.vantages.map(({ name, region, country, lastSeenSec }) => ({
      name,
      region,
      country,
      online: lastSeenSec !== null && snapshot.generatedAtSec - lastSeenSec <= ONLINE_SEC,
      last_seen: timestampOrNull(lastSeenSec),
    }))
    const measured = measuredRegions(snapshot)
    return {
      service: 'relay-site-monitor',
      version,
      data_version: snapshot.version,
      generated_at: timestamp(snapshot.generatedAtSec),
      sites: snapshot.sites.length,
      vantages,
      regions: {
        cn: { measured: measured.includes('cn') },
        overseas: { measured: measured.includes('overseas') },
      },
      probe_interval_s: probeIntervalSec,
      screenshots: { enabled: this.options.hasScreenshots?.() ?? false },
      retention: RETENTION,
      contact: supportEmail,
      methodology_url: `${publicBaseUrl}/methodology`,
    }
  }

  private dataHeaders(key: string, view: (snapshot: Snapshot) => unknown): ResponseContent {
    const snapshot = this.snapshot()
    return this.cached(
      this.bodies.get(`${snapshot.version} ${key}`, () => view(snapshot)),
      15,
    )
  }

  /** Bodies that do not depend on the data. */
  private lasting(
    key: string,
    view: () => unknown,
    maxAgeSec: number,
    headers: Headers = [],
  ): ResponseContent {
    return this.cached(this.bodies.get(key, view), maxAgeSec, headers)
  }

  private cached(body: Body, maxAgeSec: number, headers: Headers = []): ResponseContent {
    const isShared = this.options.isSharedCache && maxAgeSec < HOUR_SEC
    const cacheControl = isShared
      ? `public, max-age=${maxAgeSec}, stale-while-revalidate=60`
      : `private, max-age=${maxAgeSec}`
    return toContent(body, { cacheControl, hasEtag: true, headers })
  }

  private snapshot(): Snapshot {
    const snapshot = this.options.snapshot()
    if (snapshot === null) throw new ApiError('not_ready', 'the data is not loaded yet')
    return snapshot
  }
}

/** The parameter `history` of a site; two of its values have two names, and share a body. */
const HISTORIES = {
  none: 'none',
  days: 'day',
  full: 'hour',
  hour: 'hour',
  day: 'day',
  raw: 'raw',
} as const satisfies Record<string, HistoryKind | 'none'>

/** Days; spec 8.2. */
const RETENTION = { raw: 7, hours: 32, days: 400, incidents: 400, detections: 7 }

function indexView() {
  const endpoints = ENDPOINTS.map(({ method, path, summary }) => {
    return { method, path: path === '/' ? BASE : BASE + path, summary }
  })
  return { endpoints }
}

/**
 * The cache key of a site's own pages: its row, which changes with each of its probes, and the hour, with which the windows
 * move. Not the data version: a snapshot comes every 5 s and leaves most sites unchanged.
 */
function stateKey({ generatedAtSec }: Snapshot, site: SiteState): string {
  return `${Math.floor(generatedAtSec / HOUR_SEC)} ${JSON.stringify(site)}`
}

/** Unknown, malformed and hidden slugs give the same error. */
function findSite(snapshot: Snapshot, name: string): SiteState {
  const { aliases } = snapshot
  const slug = Object.hasOwn(aliases, name) ? aliases[name] : name
  const site = siteIndex(snapshot).bySlug(slug)
  if (site) return site
  throw new ApiError('site_not_found', 'there is no site with this slug')
}

/** Reads the start of a list's JSON: `{"total":17,…`. */
function readTotal({ plain }: Body): number {
  return Number.parseInt(plain.toString('latin1', '{"total":'.length, 32), 10)
}

function clientText({ ip, key }: QuotaClient): string {
  return key ? `key ${key.id}` : ip
}
