/** Error pages: what is missing or wrong, and a way on. */
import { siteIndex } from '../../api/site-index.ts'
import { getStatus } from '../../api/site-view.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { notice, statusLabel, tierBadge } from '../components.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html } from '../html.ts'
import { href, type Page } from '../page.ts'

const NEAREST_MAX = 3
const WORD_CHARS_MAX = 12 // each shorter start is searched for among all sites

/** `slug`: of a site that is not listed; null for other addresses. */
export function notFoundPage(
  page: Page,
  site: SiteContext,
  snapshot: Snapshot | null,
  slug: string | null,
): Html {
  const { m } = page
  const title = slug === null ? m.errors.notFound : m.errors.siteNotFound
  const word = slug === null ? '' : (/^[a-z0-9]{2,}/.exec(slug.slice(0, WORD_CHARS_MAX))?.[0] ?? '')
  const nearest = snapshot === null || word === '' ? [] : findNearest(snapshot, word)
  return frame(
    page,
    site,
    { title, path: '', isIndexed: false, generatedAtSec: null },
    html`<div class="narrow stack"><div class="page-head"><h1>${title}</h1><p class="lead">${slug === null ? m.errors.noPage : m.errors.noSite}</p></div>
<form method="get" action="/" role="search" class="url-row"><div class="field"><label for="q">${m.errors.find}</label><input id="q" name="q" type="search" maxlength="64" value="${word}"></div><button class="button" type="submit">${m.errors.findButton}</button></form>
${nearest.length > 0 && html`<section aria-labelledby="near"><div class="section-head"><h2 id="near">${m.errors.near}</h2></div><table class="table"><tbody>${nearest.map((each) => nearRow(page, each))}</tbody></table></section>`}
<p><a href="${href(page, '/')}">${m.errors.allSites}</a> · <a href="${href(page, '/leaderboard')}">${m.frame.boards}</a> · <a href="${href(page, '/submit')}">${m.errors.detectOther}</a></p></div>`,
  )
}

function findNearest(snapshot: Snapshot, word: string): SiteState[] {
  const index = siteIndex(snapshot)
  for (let length = word.length; length >= 3; length--) {
    const found = index
      .ordered('rank', undefined)
      .filter((site) => index.hasText(site, word.slice(0, length)))
    if (found.length > 0) return found.slice(0, NEAREST_MAX)
  }
  return []
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
