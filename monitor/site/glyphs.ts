/** Glyphs of 12 px in `currentColor`: one sprite per page, so each use costs 60 bytes. */
import { type Html, html } from './html.ts'

/** Shapes differ as well as colours: a state must be readable in greyscale (design, section 3). */
const SHAPES = {
  up: html`<circle cx="6" cy="6" r="4.5"/>`,
  degraded: html`<path d="M6 .8 11.6 11H.4z"/>`,
  down: html`<path fill-rule="evenodd" d="M.8.8h10.4v10.4H.8zM4 2.9 2.9 4l2 2-2 2L4 9.1l2-2 2 2L9.1 8l-2-2 2-2L8 2.9l-2 2z"/>`,
  reachable: html`<path d="m1 6.6 3.3 3.3L11 2.6" fill="none" stroke="currentColor" stroke-width="2"/>`,
  unknown: html`<circle cx="6" cy="6" r="4.6" fill="none" stroke="currentColor" stroke-width="1.4" stroke-dasharray="2.1 1.52"/>`,
  warning: html`<path fill-rule="evenodd" d="M6 .4 11.9 11.4H.1zM5.3 4.2v3.6h1.4V4.2zm0 4.6v1.4h1.4V8.8z"/>`,
  info: html`<path fill-rule="evenodd" d="M6 .3a5.7 5.7 0 1 1 0 11.4A5.7 5.7 0 0 1 6 .3zM5.3 5v4.2h1.4V5zm0-2.2v1.4h1.4V2.8z"/>`,
  stop: html`<path fill-rule="evenodd" d="M3.6.3h4.8l3.3 3.3v4.8l-3.3 3.3H3.6L.3 8.4V3.6zM5.3 2.8v4h1.4v-4zm0 5v1.4h1.4V7.8z"/>`,
  waiting: html`<circle cx="6" cy="6" r="4.4" fill="none" stroke="currentColor" stroke-width="1.2"/>`,
  running: html`<path d="M6 1.4A4.6 4.6 0 1 1 1.4 6" fill="none" stroke="currentColor" stroke-width="2"/>`,
  skipped: html`<path d="M1.5 6h9" stroke="currentColor" stroke-width="1.6"/>`,
  best: html`<path d="M2.2.6h7.6v10.8L6 8.6l-3.8 2.8z"/>`,
  external: html`<path d="M4.5 2H2v8h8V7.5M7 1.5h3.5V5M10.3 1.7 5.5 6.5" fill="none" stroke="currentColor" stroke-width="1.4"/>`,
  system: html`<path d="M6 1a5 5 0 0 0 0 10z"/><circle cx="6" cy="6" r="4.6" fill="none" stroke="currentColor" stroke-width="1.2"/>`,
  light: html`<circle cx="6" cy="6" r="2.4"/><path d="M6 .4v1.7M6 9.9v1.7M.4 6h1.7M9.9 6h1.7M2 2l1.2 1.2M8.8 8.8 10 10M10 2 8.8 3.2M3.2 8.8 2 10" stroke="currentColor" stroke-width="1.2"/>`,
  dark: html`<path d="M10.8 7.6A5.2 5.2 0 0 1 4.4 1.2a5.2 5.2 0 1 0 6.4 6.4z"/>`,
} as const

export type GlyphName = keyof typeof SHAPES

export function glyph(name: GlyphName, extraClass = ''): Html {
  return html`<svg class="glyph${extraClass && ` ${extraClass}`}" aria-hidden="true"><use href="#glyph-${name}"/></svg>`
}

export const SPRITE: Html = html`<svg class="sprite" aria-hidden="true" focusable="false"><defs>${Object.entries(
  SHAPES,
).map(
  ([name, shape]) => html`<symbol id="glyph-${name}" viewBox="0 0 12 12">${shape}</symbol>`,
)}</defs></svg>`
