/** `/detections/{id}`: how far a detection is, and what came out. */
import { getSiteFacts } from '../../api/site-facts.ts'
import type { detectionView } from '../../detections/detection.ts'
import type { resultView } from '../../detections/result-view.ts'
import { CERTIFICATE_DAYS_MIN, displayScore } from '../../scoring/score.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { strip } from '../charts/strip.ts'
import {
  dateTimeTag,
  keyFigure,
  listWarned,
  milliseconds,
  notice,
  percentOr,
  regionLabel,
  section,
  tierBadge,
  warnedMark,
  withGlyph,
} from '../components.ts'
import { toTime } from '../format.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type GlyphName, glyph } from '../glyphs.ts'
import { type Content, type Html, html, join } from '../html.ts'
import { href, type Page } from '../page.ts'
import { describeStepDetail } from './step-detail.ts'

export type DetectionBody = Omit<ReturnType<typeof detectionView>, 'result'> & {
  result: ReturnType<typeof resultView> | null
}

const REFRESH_SEC = 3

export function detectionPage(
  page: Page,
  context: SiteContext,
  snapshot: Snapshot,
  detection: DetectionBody,
): Html {
  const { m } = page
  const isEnded = detection.status === 'done' || detection.status === 'failed'
  const site = snapshot.sites.find(({ slug }) => slug === detection.site_slug) ?? null
  return frame(
    page,
    context,
    {
      title: m.submit.title,
      path: `/detections/${detection.id}`,
      isIndexed: false,
      generatedAtSec: snapshot.generatedAtSec,
      ...(isEnded
        ? { scripts: ['copy.js'] }
        : { refreshSec: REFRESH_SEC, scripts: ['detection.js', 'copy.js'] }),
    },
    html`<div class="columns columns-main"><div class="col stack"><div id="detection" data-version="${detection.version}" data-status="${detection.status}" data-words="${JSON.stringify(toWords(page, detection))}"><div class="page-head"><p class="breadcrumb"><a href="${href(page, '/submit')}">${m.frame.detect}</a> <span aria-hidden="true">/</span> <span class="mono">${detection.id}</span></p><h1>${heading(page, detection)}</h1><p class="lead mono">${detection.url}</p></div>
${isEnded ? ended(page, detection, site) : progress(page, detection)}</div>
${section('steps', m.detection.steps, stepList(page, detection), total(page, detection))}
${detection.result !== null && detection.result.notices.length > 0 && section('notices', m.detection.notices, html`<ul class="dash-list">${detection.result.notices.map((code) => html`<li><span>${m.codes.notices[code] ?? code}</span></li>`)}</ul>`)}
<p class="small muted">${m.detection.kept} ${dateTimeTag(Date.parse(detection.expires_at) / 1_000)} UTC${m.sitePage.stop}${m.frame.gap}<a href="/api/v1/detections/${detection.id}">${m.sitePage.json}</a> · ${isEnded ? html`<a href="${href(page, '/submit')}">${m.detection.another}</a>` : m.detection.close}</p><p><button class="button button-quiet" type="button" hidden data-copied="${m.detection.copied}">${m.detection.copy}</button> <span class="small" aria-live="polite"></span></p></div>
<div class="col">${site !== null && catalogueEntry(page, site, snapshot)}</div></div>`,
  )
}

function total({ m, f }: Page, { steps, status }: DetectionBody): Content {
  if (status !== 'done') return null
  return html`<p>${m.detection.inAll(f.number(steps.reduce((sum, { ms }) => sum + (ms ?? 0), 0)))}</p>`
}

function heading({ m }: Page, { status, result }: DetectionBody): string {
  if (status === 'queued') return m.detection.queued
  if (status === 'running') return m.detection.running
  if (result === null) return m.detection.failed
  return m.detection.heading[result.verdict](m.codes.status[result.status])
}

/** The texts that assets/detection.js needs. */
function toWords(page: Page, { steps }: DetectionBody) {
  const { states } = page.m.detection
  return {
    states: Object.fromEntries(
      Object.entries(STEP_GLYPHS).map(([status, name]) => [
        status,
        [name, states[status as keyof typeof states]],
      ]),
    ),
    steps: Object.fromEntries(steps.map(({ name }, i) => [name, describeStep(page, i, steps)])),
  }
}

function describeStep({ m, f }: Page, index: number, steps: DetectionBody['steps']): string {
  return `${m.detection.step(f, index + 1, steps.length)} ${m.detection.names[steps[index].name]}`
}

function progress(page: Page, { steps, started_at, queue_position }: DetectionBody): Html {
  const { m, f } = page
  const done = steps.filter(({ status }) => status !== 'pending' && status !== 'running').length
  const text =
    started_at === null
      ? html`<b>${queue_position !== null && m.detection.position(f, queue_position)}</b>`
      : html`<b id="step">${describeStep(page, Math.min(done, steps.length - 1), steps)}</b> <span class="muted">${m.detection.started(toTime(Date.parse(started_at) / 1_000))}</span>`
  return html`<div aria-live="polite"><p class="small">${text}</p></div><progress class="progress" max="${steps.length}" value="${done}" aria-label="${m.detection.stepsDone}">${done} / ${steps.length}</progress>`
}

function ended(page: Page, { result, error }: DetectionBody, site: SiteState | null): Content {
  const { m } = page
  if (result === null) {
    const text = error === null ? '' : (m.detection.failures[error.code] ?? error.message)
    return notice('bad', 'stop', html`<p>${text}</p>`)
  }
  const { estimated_tier: tier } = result
  const verdict =
    tier !== null &&
    html`<div class="result">${tierBadge(page, tier, true)}<p><b>${m.detection.estimated(tier)}</b>${m.frame.gap}${m.detection.atBest}${m.frame.gap}${site !== null && m.detection.inCatalogue(site.tier)}</p></div>`
  return html`${verdict}${figures(page, result)}`
}

function figures(page: Page, result: NonNullable<DetectionBody['result']>): Html {
  const { m, f } = page
  const { network_profile: network, probe } = result
  const latency = probe?.latency_ms
  const total = latency?.total == null ? null : `${f.number(latency.total)} ms`
  const software = network.software.name === 'unknown' ? m.sitePage.figures.unknown : network.software.name
  const { version } = network.software
  const listed = result.listing_auth === 'open' ? m.detection.modelsSeen(f, result.models_total) : ''
  const status = probe?.http_status == null ? '' : m.detection.httpStatus(probe.http_status)
  const region = (state: typeof network.china) =>
    [
      regionLabel(page, state.state),
      (state.state === 'reachable' ? m.sitePage.vantagesReached : m.sitePage.vantagesFailed)(
        f,
        state.agreeing,
        state.vantages,
      ),
    ] as const
  const confidence =
    network.software.confidence > 0 && m.sitePage.figures.confidence(f.share(network.software.confidence))
  return html`<dl class="key-figures key-figures-3">${[
    keyFigure(
      m.site.firstByte,
      milliseconds(page, latency?.ttfb ?? null),
      total !== null && m.detection.ofAll(total),
    ),
    keyFigure(
      m.detection.modelList,
      m.detection.auth[result.listing_auth],
      join([listed, status], m.charts.separator),
    ),
    keyFigure(
      m.sitePage.figures.software,
      software,
      join([version && html`<bdi>${version}</bdi>`, confidence], m.charts.separator),
    ),
    keyFigure(
      m.codes.from.overseas,
      region(network.overseas)[0],
      network.overseas.state === 'unknown' ? m.detection.noVantage : region(network.overseas)[1],
    ),
    keyFigure(
      m.codes.from.cn,
      region(network.china)[0],
      network.china.state === 'unknown' ? m.detection.noVantage : region(network.china)[1],
    ),
    keyFigure(
      m.sitePage.certificate,
      certificate(page, network.tls),
      network.tls !== null && join([network.tls.version, network.tls.alpn], m.charts.separator),
    ),
  ]}</dl>`
}

type Certificate = NonNullable<DetectionBody['result']>['network_profile']['tls']

function certificate({ m, f }: Page, tls: Certificate): Content {
  if (tls === null) return '–'
  if (!tls.valid) return withGlyph('down', 'down', m.detection.certificateInvalid)
  const left = m.detection.certificateLeft(f, Math.max(0, tls.days_left))
  return tls.days_left < CERTIFICATE_DAYS_MIN ? withGlyph('degraded', 'warning', left) : left
}

const STEP_GLYPHS: Record<string, GlyphName> = {
  pending: 'waiting',
  running: 'running',
  ok: 'reachable',
  warn: 'warning',
  error: 'down',
  skipped: 'skipped',
}

function stepList(page: Page, { steps }: DetectionBody): Html {
  const { m, f } = page
  return html`<ol class="steps">${steps.map(({ name, status, ms, detail }) => {
    const isWaiting = status === 'pending' || status === 'running'
    const duration = ms !== null ? `${f.number(ms)} ms` : isWaiting ? m.detection.states[status] : ''
    return html`<li class="step step-${status}" data-step="${name}">${glyph(STEP_GLYPHS[status], status === 'running' ? 'spin' : '')}<span>${m.detection.names[name]} <span class="visually-hidden">${duration !== m.detection.states[status] && m.detection.states[status]}</span></span><span class="duration muted">${duration}</span>${detail !== null && html`<span class="detail">${describeStepDetail(page, name, detail)}</span>`}</li>`
  })}</ol>`
}

function catalogueEntry(page: Page, site: SiteState, snapshot: Snapshot): Html {
  const { m, f } = page
  const facts = getSiteFacts(site)
  return section(
    'known',
    m.detection.known,
    html`<div class="title">${tierBadge(page, site.tier)}<div><a class="name" href="${href(page, `/sites/${site.slug}`)}"><bdi>${site.name}</bdi></a><p class="small muted">${m.site.score} ${f.decimal(displayScore(site.score))}</p>${listWarned(snapshot).has(site.slug) && warnedMark(page)}</div></div><div class="space-small">${strip(page, site.name, facts.days, snapshot.generatedAtSec)}</div><p class="figures"><span>${m.boards.week} <b>${percentOr(page, facts.availability7d)}</b></span><span>${m.boards.month} <b>${percentOr(page, facts.availability30d)}</b></span><span>${m.site.firstByte} <b>${milliseconds(page, facts.p50Ms)}</b></span></p><p class="small muted space-small">${m.detection.knownText}</p>`,
  )
}
