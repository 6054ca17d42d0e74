/** `/methodology` and `/about/probe`: how sites are scored, and what the prober sends. Built from the tables of the code. */
import { FULL_INTERVAL_MS } from '../../scheduler/schedule.ts'
import { BLACK_WEIGHTS, type BlackReason } from '../../scoring/boards.ts'
import { computeScore, METHOD } from '../../scoring/score.ts'
import { CAPS, type CapCode } from '../../scoring/tier.ts'
import { SCREENSHOT_LIMITS } from '../../screenshots/limits.ts'
import { contents, section, statusLabel, tierBadge, withMail } from '../components.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

export const METHODOLOGY_PATH = '/methodology'
export const PROBE_PATH = '/about/probe'

export interface ProbeFacts {
  intervalSec: number // PROBE_INTERVAL_S
  userAgent: string
}

const NOTHING_KNOWN = {
  history: { a24h: null, a7d: null, a30d: null, p50Ms: null, p95Ms: null },
  truthRatio: null,
  reachability: null,
  hygiene: null,
}

export function methodologyPage(page: Page, context: SiteContext): Html {
  const { m } = page
  const { method } = m
  const { components } = computeScore(NOTHING_KNOWN)
  const weights = html`<p>${method.weightsText(METHOD)}</p><table class="table table-parts"><thead><tr><th scope="col">${method.component}</th><th scope="col" class="num">${method.weight}</th><th scope="col">${method.how}</th></tr></thead><tbody>${components.map(({ key, weight }) => html`<tr><th scope="row">${m.codes.components[key]}</th><td class="num">${weight}</td><td>${method.components[key]}</td></tr>`)}</tbody></table><p class="small muted">${method.scoreJson}</p>`
  const caps = html`<p>${method.capsText}</p><ul class="dash-list">${(Object.keys(CAPS) as CapCode[]).map((code) => html`<li><span>${m.codes.caps[code]}</span></li>`)}</ul>`
  const tiers = html`<p>${(['S', 'A', 'B', 'C', 'D'] as const).map((tier) => html`${tierBadge(page, tier)} `)}</p><p>${method.tiersText}</p>`
  const statuses = html`<dl class="facts">${(['up', 'degraded', 'down'] as const).map((status) => html`<dt>${statusLabel(page, status)}</dt><dd>${method.statuses[status]}</dd>`)}</dl>${paragraphs([method.now])}`
  const warnings = html`<table class="table"><thead><tr><th scope="col">${method.warning}</th><th scope="col" class="num">${method.weight}</th></tr></thead><tbody>${listByWeight().map(([code, weight]) => html`<tr><th scope="row">${m.codes.blackReasons[code]}</th><td class="num">${weight}</td></tr>`)}</tbody></table><p class="small muted">${method.warningsNote}</p>`
  const { supportEmail } = context
  const appeal = supportEmail === '' ? method.mistakesNoContact : method.mistakesText(supportEmail)
  const parts: [id: string, heading: string, content: Content][] = [
    ['status', method.status, statuses],
    ['score', method.weights, weights],
    ['tiers', method.tiers, tiers],
    ['caps', method.caps, caps],
    ['regions', method.regions, paragraphs(method.regionsText)],
    ['boards', method.boards, [paragraphs(method.boardsText), warnings]],
    ['certainty', method.certainty, paragraphs(method.certaintyText)],
    ['mistakes', method.mistakes, paragraphs([withMail(appeal, supportEmail)])],
    ['versions', method.versions, paragraphs([method.versionsText(METHOD)])],
  ]
  return frame(
    page,
    context,
    { title: m.texts.methodTitle, path: METHODOLOGY_PATH, generatedAtSec: null },
    html`<div class="page-head"><h1>${m.texts.methodTitle}</h1><p class="lead">${method.lead}</p></div>
<div class="text-page">${contents(
      page,
      parts.map(([id, heading]) => [id, heading]),
    )}<div class="narrow stack">${parts.map((part) => section(...part))}</div></div>`,
  )
}

/** Warnings, the heaviest first. */
function listByWeight(): [BlackReason, number][] {
  return (Object.entries(BLACK_WEIGHTS) as [BlackReason, number][]).sort(([, a], [, b]) => b - a)
}

export function aboutProbePage(
  page: Page,
  context: SiteContext,
  { intervalSec, userAgent }: ProbeFacts,
): Html {
  const { m, f } = page
  const { probe } = m.method
  const { supportEmail } = context
  const sent = paragraphs([
    probe.light(f.number(intervalSec), f.number(FULL_INTERVAL_MS / 3_600_000)),
    probe.rules,
    probe.retry,
    probe.picture({
      requests: f.number(SCREENSHOT_LIMITS.requests),
      mebibytes: f.number(SCREENSHOT_LIMITS.bytesMax / 1_024 ** 2),
      seconds: f.number(SCREENSHOT_LIMITS.ms / 1_000),
    }),
    probe.detection,
  ])
  return frame(
    page,
    context,
    { title: m.texts.probeTitle, path: PROBE_PATH, generatedAtSec: null },
    html`<div class="text-page narrow stack"><div class="page-head"><h1>${m.texts.probeTitle}</h1><p class="lead">${probe.lead}</p></div>${[
      section(
        'sent',
        probe.sent,
        html`<dl class="facts"><dt>${probe.userAgent}</dt><dd class="mono">${userAgent}</dd></dl>${sent}`,
      ),
      section(
        'out',
        probe.out,
        paragraphs([
          supportEmail === '' ? probe.outNoContact : withMail(probe.outText(supportEmail), supportEmail),
          probe.outBlocking,
        ]),
      ),
    ]}</div>`,
  )
}

function paragraphs(texts: readonly Content[]): Content {
  return texts.map((text) => html`<p>${text}</p>`)
}
