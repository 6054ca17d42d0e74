/** The frame of every page: head, header with navigation, language and theme, footer. */
import { mistakeLink } from './components.ts'
import { toDateTime } from './format.ts'
import { glyph, SPRITE } from './glyphs.ts'
import { type Content, type Html, html } from './html.ts'
import { href, type Language, type Page, type Parameters } from './page.ts'

export interface FrameOptions {
  title: string // without the name of the site; empty = the name alone
  path: string // of this page, for the other language and the navigation; '' = an error at any address
  query?: Parameters // without `lang`, for the other language
  isIndexed?: boolean // default true
  scripts?: readonly string[] // modules: names of assets
  refreshSec?: number // for clients without JavaScript
  generatedAtSec: number | null // of the data
  description?: string
}

export interface SiteContext {
  assets: (name: string) => string // name → path with its hash
  publicBaseUrl: string // empty = unknown
  supportEmail: string // empty = none
}

const NAVIGATION = [
  ['/', 'sites'],
  ['/leaderboard', 'boards'],
  ['/submit', 'detect'],
  ['/methodology', 'method'],
  ['/docs', 'api'],
] as const

export function frame(page: Page, site: SiteContext, options: FrameOptions, main: Content): Html {
  const { m, language } = page
  const { title, path, isIndexed = true, scripts = [], refreshSec, description } = options
  const whole = title === '' ? m.frame.title : `${title} · ${m.frame.title}`
  return html`<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<title>${whole}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="${description ?? m.frame.description}">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" content="#fcfcfb" media="(prefers-color-scheme: light)">
<meta name="theme-color" content="#101315" media="(prefers-color-scheme: dark)">
${!isIndexed && html`<meta name="robots" content="noindex">`}
${refreshSec !== undefined && html`<noscript><meta http-equiv="refresh" content="${refreshSec}"></noscript>`}
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="manifest" href="/manifest.webmanifest">
${listAlternates(options, site)}
<script src="${site.assets('theme.js')}"></script>
<link rel="stylesheet" href="${site.assets('style.css')}">
${scripts.map((name) => html`<script type="module" src="${site.assets(name)}"></script>`)}
</head>
<body>
<a class="skip" href="#main">${m.frame.skip}</a>
${SPRITE}
<header class="header"><div class="page-width">
<a class="brand" href="${href(page, '/')}"><svg aria-hidden="true" viewBox="0 0 20 16"><path fill="currentColor" d="M0 0h4v16H0zM5.3 0h4v16h-4zM11.6 14h2v2h-2zM16 0h4v16h-4z"/></svg>${m.frame.title}</a>
<nav class="nav" aria-label="${m.frame.main}">${NAVIGATION.map(
    ([to, name]) =>
      html`<a href="${href(page, to)}"${isCurrent(path, to) && html` aria-current="page"`}>${m.frame[name]}</a>`,
  )}</nav>
<div class="tools">${languageLink(page, options)}
<div class="theme" role="group" aria-label="${m.frame.theme}">${(['system', 'light', 'dark'] as const).map(
    (theme) =>
      html`<button type="button" data-set-theme="${theme}" aria-pressed="${String(theme === 'system')}" title="${m.frame.themes[theme]}"><span class="visually-hidden">${m.frame.themes[theme]}</span>${glyph(theme)}</button>`,
  )}</div></div>
</div></header>
<main id="main" class="page-width">
${main}
</main>
<footer class="footer"><div class="page-width"><ul>
<li><a href="${href(page, '/methodology')}">${m.frame.scored}</a></li><li><a href="${href(page, '/about/probe')}">${m.frame.probe}</a></li><li><a href="${href(page, '/changelog')}">${m.frame.changelog}</a></li><li><a href="${href(page, '/docs')}">${m.frame.reference}</a></li>${
    site.supportEmail !== '' && html`<li>${mistakeLink(page, site.supportEmail, title)}</li>`
  }</ul>
<p>${m.frame.times}${options.generatedAtSec !== null && html`${m.frame.gap}${m.frame.dataTime(toDateTime(options.generatedAtSec))}`}</p></div></footer>
</body>
</html>
`
}

function isCurrent(path: string, to: string): boolean {
  if (to === '/') return path === '/' || path.startsWith('/sites/')
  return path === to || (to === '/submit' && path.startsWith('/detections/'))
}

function languageLink({ language }: Page, options: FrameOptions): Html {
  const other = language === 'en' ? 'zh-CN' : 'en'
  const name = other === 'en' ? 'English' : '中文'
  return html`<a href="${otherLanguage(options, other)}" lang="${other}" hreflang="${other}">${name}</a>`
}

/** For search engines, which ignore them unless they are absolute. */
function listAlternates(options: FrameOptions, { publicBaseUrl }: SiteContext): Html[] {
  if (publicBaseUrl === '' || options.path === '') return []
  return (['en', 'zh-CN'] as const).map((language) => {
    const to = publicBaseUrl + otherLanguage(options, language)
    return html`<link rel="alternate" hreflang="${language}" href="${to}">`
  })
}

function otherLanguage({ path, query = {} }: FrameOptions, language: Language): string {
  return href({ language, isExplicit: true }, path, query)
}
