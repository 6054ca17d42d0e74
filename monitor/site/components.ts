/** Parts that several pages share: tier, status and region, notices, times. Never colour alone: each has a shape and a word. */
import { getSiteFacts } from '../api/site-facts.ts'
import type { RegionState, Tier } from '../facts.ts'
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import { toDate, toDateTime, toTime } from './format.ts'
import { type GlyphName, glyph } from './glyphs.ts'
import { type Content, type Html, html } from './html.ts'
import type { Page } from './page.ts'

export type Status = 'up' | 'degraded' | 'down'

export function tierBadge({ m }: Page, tier: Tier, isLarge = false): Html {
  return html`<span class="tier tier-${tier}${isLarge && ' tier-xl'}"><span class="visually-hidden">${m.site.tier} </span>${tier}</span>`
}

export function statusLabel({ m }: Page, status: Status): Html {
  return withGlyph(status, status, m.codes.status[status])
}

const REGION_GLYPHS = {
  reachable: ['up', 'reachable'],
  unreachable: ['down', 'down'],
  unknown: ['unknown', 'unknown'],
} as const

/** Not measured is grey and worded, never red (design, section 1). */
export function regionLabel({ m }: Page, state: RegionState['state']): Html {
  const [kind, name] = REGION_GLYPHS[state]
  return withGlyph(kind, name, m.codes.region[state])
}

export function withGlyph(kind: Status | 'unknown', name: GlyphName, word: Content): Html {
  return html`<span class="status status-${kind}">${glyph(name)}<span class="word">${word}</span></span>`
}

export type NoticeKind = 'plain' | 'warn' | 'bad'

export function notice(kind: NoticeKind, name: GlyphName, ...content: Content[]): Html {
  return html`<div class="notice${kind !== 'plain' && ` notice-${kind}`}">${glyph(name)}${content}</div>`
}

export function dateTag(atSec: number): Html {
  return html`<time datetime="${toDate(atSec)}">${toDate(atSec)}</time>`
}

export function dateTimeTag(atSec: number): Html {
  return html`<time datetime="${toIso(atSec)}">${toDateTime(atSec)}</time>`
}

export function timeTag(atSec: number): Html {
  return html`<time datetime="${toIso(atSec)}">${toTime(atSec)}</time>`
}

export function milliseconds({ f }: Page, ms: number | null): Content {
  return ms === null ? '–' : html`<span class="figure-ms">${f.number(ms)}</span><span class="unit"> ms</span>`
}

export function keyFigure(label: string, value: Content, sub: Content): Html {
  return html`<div class="key-figure"><dt>${label}</dt><dd>${value}</dd><dd class="sub muted">${sub}</dd></div>`
}

/** A percentage; `not measured` for null. */
export function percentOr({ f, m }: Page, ratio: number | null | undefined): string {
  return ratio == null ? m.site.notMeasured : f.percent(ratio)
}

/** Whether the site claims models, but its own list has not been read, so that the claim is neither confirmed nor refuted. */
export function isListUnread(site: SiteState): boolean {
  const { modelsClaimed, components } = getSiteFacts(site)
  return modelsClaimed > 0 && (components.find(({ key }) => key === 'models')?.value ?? null) === null
}

/** The slugs of all sites on the black board. */
export function listWarned({ boards }: Snapshot): Set<string> {
  return new Set(boards.black.map(({ slug }) => slug))
}

/** For sites on the black board, wherever they are named outside it. */
export function warnedMark({ m }: Page): Html {
  return html`<span class="sub warned">${withGlyph('down', 'stop', m.site.warned)}</span>`
}

/** A mail to the operator whose subject names what is wrong, such as a site. */
export function mistakeLink({ m }: Page, email: string, about: string, hidden: Content = null): Html {
  const subject = encodeURIComponent(`${m.frame.mistake}: ${about}`)
  return html`<a href="mailto:${email}?subject=${subject}">${m.frame.mistake}${hidden}</a>`
}

/** How much the figures of a site rest on: probes of 30 days and vantages. */
export function describeSample({ m, f }: Page, site: SiteState): string {
  const { probes30d } = getSiteFacts(site)
  const vantages = site.regions.cn.vantages + site.regions.overseas.vantages
  return probes30d === null ? '' : m.site.sample(f, probes30d, vantages)
}

function toIso(atSec: number): string {
  return `${new Date(atSec * 1_000).toISOString().slice(0, 19)}Z`
}

export function section(id: string, heading: Content, content: Content, aside: Content = null): Html {
  return html`<section aria-labelledby="${id}"><div class="section-head"><h2 id="${id}">${heading}</h2>${aside}</div>${content}</section>`
}

/** Links to the sections of a long page: beside the text where there is room, else before it. */
export function contents({ m }: Page, sections: readonly (readonly [id: string, heading: Content])[]): Html {
  return html`<nav class="contents" aria-label="${m.sitePage.onThisPage}"><p class="small muted">${m.sitePage.onThisPage}</p><ul>${sections.map(([id, heading]) => html`<li><a href="#${id}">${heading}</a></li>`)}</ul></nav>`
}

/** A text with the operator's address in it, which becomes a link. */
export function withMail(text: string, email: string): Content {
  if (email === '') return text
  return around(text, email, html`<a href="mailto:${email}">${email}</a>`)
}

/** A text in which `part`, such as a time, becomes `tag`. */
export function around(text: string, part: string, tag: Html): Content {
  const at = text.indexOf(part)
  return at < 0 ? text : html`${text.slice(0, at)}${tag}${text.slice(at + part.length)}`
}

/** The figures of a chart behind a disclosure; wide tables scroll in themselves. */
export function moreTable({ m }: Page, content: Content): Html {
  return html`<details class="more"><summary>${m.charts.asTable}</summary><div class="scroll" role="region" aria-label="${m.charts.asTable}" tabindex="0">${content}</div></details>`
}
