/** `/submit`: a form for one detection. Without JavaScript it is sent, and the result page is answered with 303. */

import { findUnmeasured, measuredRegions } from '../../api/measured-regions.ts'
import type { Quota } from '../../api/quota.ts'
import type { Snapshot } from '../../storage/snapshot.ts'
import { notice, section } from '../components.ts'
import { toTime } from '../format.ts'
import { frame, type SiteContext } from '../frame.ts'
import { glyph } from '../glyphs.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

export interface SubmitState {
  quota: Quota // of submissions, not counted by showing it
  url?: string // as it was sent
  error?: Content // why it was refused
  isEnabled: boolean
}

export function submitPage(page: Page, context: SiteContext, snapshot: Snapshot, state: SubmitState): Html {
  const { m, f } = page
  const { quota } = state
  const missing = findUnmeasured(measuredRegions(snapshot))
  const limits = [...m.submit.limitsList, ...(missing === null ? [] : [m.list.notMeasured[missing].title])]
  return frame(
    page,
    context,
    {
      title: m.submit.title,
      path: '/submit',
      generatedAtSec: snapshot.generatedAtSec,
      description: m.submit.lead,
    },
    html`<div class="columns columns-main"><div class="col"><div class="page-head"><h1>${m.submit.heading}</h1><p class="lead">${m.submit.lead}</p></div>
${state.isEnabled ? form(page, state) : notice('plain', 'info', html`<p>${m.submit.disabled}</p>`)}
<div class="space-large">${section('sent', m.submit.whatSent, html`<table class="table"><tbody>${m.submit.sent.map(([name, text]) => html`<tr><th scope="row"><b>${name}</b></th><td class="muted">${text}</td></tr>`)}</tbody></table>`)}</div></div>
<div class="col">${[
      section(
        'quota',
        m.submit.quota,
        html`<p><b>${m.submit.left(f, quota.remaining, quota.limit)}</b>${m.frame.gap}${m.submit.leftText(f, quota.limit)}${m.frame.gap}<span class="muted">${m.submit.resets(toTime(quota.resetSec))}</span></p>`,
      ),
      section(
        'limits',
        m.submit.limits,
        html`<ul class="dash-list">${limits.map((text) => html`<li><span>${text}</span></li>`)}</ul>`,
      ),
    ]}</div></div>`,
  )
}

function form(page: Page, { url = '', error }: SubmitState): Html {
  const { m } = page
  const hasError = error !== undefined
  return html`<form method="post" action="/submit${page.isExplicit && `?lang=${page.language}`}"><div class="field"><label for="url">${m.submit.label}</label><div class="url-row"><input id="url" name="url" type="${hasError ? 'text' : 'url'}" inputmode="url" autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="2048" required${hasError && html` aria-invalid="true" autofocus`} aria-describedby="${hasError && 'url-error '}url-hint" value="${url}"><button class="button" type="submit">${m.submit.start}</button></div>
${hasError && html`<p class="field-error" id="url-error" role="alert">${glyph('stop')}<span>${error}</span></p>`}<p class="small muted" id="url-hint">${m.submit.hint}</p></div></form>`
}
