/** `/changelog` and its Atom feed (RFC 4287): the entries of api/changelog.yaml. */
import type { ChangelogEntry } from '../../api/changelog.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

export function changelogPage(page: Page, context: SiteContext, entries: readonly ChangelogEntry[]): Html {
  const { m } = page
  return frame(
    page,
    context,
    { title: m.texts.changelog, path: '/changelog', generatedAtSec: null },
    html`<div class="text-page narrow stack"><div class="page-head"><h1>${m.texts.changelog}</h1><p class="lead">${m.texts.changelogLead} <a href="/changelog.atom">${m.texts.feed}</a></p>${m.texts.englishOnly !== '' && html`<p class="small muted">${m.texts.englishOnly}</p>`}</div>
${entries.map(
  ({ id, kind, announced_on, effective_on, endpoints, text }) =>
    html`<section aria-labelledby="${id}"><div class="section-head"><h2 id="${id}">${m.texts.kindPrefix(m.texts.kinds[kind])}<span lang="en">${withCode(summarize(text))}</span></h2><p>${m.texts.dates(announced_on, effective_on)}</p></div><p lang="en">${withCode(text)}</p><p class="small mono">${endpoints.join(' ')}</p></section>`,
)}</div>`,
  )
}

const WORDS_MAX = 14

/** A heading for an entry: its first clause or sentence, cut at a word; code spans stay whole. */
export function summarize(text: string): string {
  const clause = /^(?:[^.;:`]|\.(?! |$)|`[^`]*`){1,400}/.exec(text)?.[0] ?? text
  const words = clause.match(/(?:`[^`]*`|[^\s`])+/g) ?? []
  return words.length <= WORDS_MAX
    ? words.join(' ')
    : `${words.slice(0, WORDS_MAX).join(' ').replace(/,$/, '')} …`
}

/** Text between backticks is code. */
function withCode(text: string): Content {
  return text.split('`').map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : part))
}

/** Ids are tag URIs (RFC 4151), so that they outlive the address of the site. */
export function changelogFeed(publicBaseUrl: string, entries: readonly ChangelogEntry[]): Html {
  const base = publicBaseUrl === '' ? '' : publicBaseUrl
  const host = publicBaseUrl === '' ? 'relay-monitor.invalid' : new URL(publicBaseUrl).hostname
  const updated = entries.length === 0 ? '1970-01-01' : entries[0].announced_on
  return html`<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Relay Monitor: changelog of the API</title><id>tag:${host},2026:changelog</id><updated>${updated}T00:00:00Z</updated><author><name>Relay Monitor</name></author><link rel="self" href="${base}/changelog.atom"/><link href="${base}/changelog"/>${entries.map(
    ({ id, kind, announced_on, text }) =>
      html`<entry><title>${kind}: ${id}</title><id>tag:${host},2026:changelog/${id}</id><updated>${announced_on}T00:00:00Z</updated><link href="${base}/changelog#${id}"/><content type="text">${text}</content></entry>`,
  )}</feed>
`
}
