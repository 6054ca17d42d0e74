/** Error pages: what is missing or wrong, and a way on. */
import { siteIndex } from '../../api/site-index.ts'
import { getStatus } from '../../api/site-view.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { notice, statusLabel, tierBadge } from '../components.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html } from '../html.ts'
import { href, type Page } from '../page.ts'

const NEAREST_MAX = 3
const START_CHARS_MIN = 3
const WORD_CHARS_MAX = 12

/** The start of a slug that is searched for: all that the page of an unknown site depends on. */
export function toWord(slug: string): string {
  return /^[a-z0-9]{2,}/.exec(slug.slice(0, WORD_CHARS_MAX))?.[0] ?? ''
}

/** `word`: of the slug of a site that is not listed; null for other addresses. */
export function notFoundPage(
  page: Page,
  site: SiteContext,
  snapshot: Snapshot | null,
  word: string | null,
): Html {
  const { m } = page
  const title = word === null ? m.errors.notFound : m.errors.siteNotFound
  const nearest = snapshot === null || word === null ? [] : findNearest(snapshot, word)
  return frame(
    page,
    site,
    { title, path: '', isIndexed: false, generatedAtSec: null },
    html`<div class="narrow stack"><div class="page-head"><h1>${title}</h1><p class="lead">${word === null ? m.errors.noPage : m.errors.noSite}</p></div>
<form method="get" action="/" role="search" class="url-row"><div class="field"><label for="q">${m.errors.find}</label><input id="q" name="q" type="search" maxlength="64" value="${word ?? ''}"></div><button class="button" type="submit">${m.errors.findButton}</button></form>
${nearest.length > 0 && html`<section aria-labelledby="near"><div class="section-head"><h2 id="near">${m.errors.near}</h2></div><table class="table"><tbody>${nearest.map((each) => nearRow(page, each))}</tbody></table></section>`}
<p><a href="${href(page, '/')}">${m.errors.allSites}</a> · <a href="${href(page, '/leaderboard')}">${m.frame.boards}</a> · <a href="${href(page, '/submit')}">${m.errors.detectOther}</a></p></div>`,
  )
}

/** One pass over all sites; a longer start is searched for only among those that have the shorter one. */
function findNearest(snapshot: Snapshot, word: string): SiteState[] {
  if (word.length < START_CHARS_MIN) return []
  const index = siteIndex(snapshot)
  let found = index.ordered('rank', undefined)
  for (let length = START_CHARS_MIN; length <= word.length; length++) {
    const closer = found.filter((site) => index.hasText(site, word.slice(0, length)))
    if (closer.length === 0) break
    found = closer
  }
  return found === index.ordered('rank', undefined) ? [] : found.slice(0, NEAREST_MAX)
}

function nearRow(page: Page, site: SiteState): Html {
  return html`<tr><td class="col-min">${tierBadge(page, site.tier)}</td><th scope="row"><a class="name" href="${href(page, `/sites/${site.slug}`)}">${site.name}</a><span class="sub">${new URL(site.url).host}</span></th><td class="num">${statusLabel(page, getStatus(site))}</td></tr>`
}

/** A page of one notice: 400, 405, 410, 429, 500, 503. `link`: the way on, before the one to all sites. */
export function noticePage(
  page: Page,
  site: SiteContext,
  { title, text, refreshSec, link }: { title: string; text: Content; refreshSec?: number; link?: Html },
): Html {
  const { m } = page
  return frame(
    page,
    site,
    {
      title,
      path: '',
      isIndexed: false,
      generatedAtSec: null,
      ...(refreshSec === undefined ? {} : { refreshSec, scripts: ['countdown.js'] }),
    },
    html`<div class="narrow stack"><div class="page-head"><h1>${title}</h1></div>${notice('bad', 'stop', html`<p>${text}</p>`, refreshSec !== undefined && html`<p class="small muted">${m.errors.reloads} <b data-seconds="${refreshSec}">${page.f.number(refreshSec)}</b> ${m.errors.seconds}</p>`)}<p>${link && html`${link} · `}<a href="${href(page, '/')}">${m.errors.allSites}</a></p></div>`,
  )
}
