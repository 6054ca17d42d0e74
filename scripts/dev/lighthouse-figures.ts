/** What `npm run lighthouse` takes from a report, and its bounds. */

export const CATEGORIES = ['performance', 'accessibility', 'best-practices', 'seo'] as const

/** Bounds that fail the run. */
const SCORE_MIN = 95
const FIRST_PAGE_BYTES_MAX = 60 * 1024 // compressed, with everything it loads
const LAYOUT_SHIFT_MAX = 0.05
const LCP_MS_MAX = 1_000 // as measured on this machine; the score counts the one simulated for a slow phone

interface Audit {
  score: number | null // 0 to 1; null = not rated
  title: string
  displayValue?: string
  numericValue?: number
  details?: { items?: { observedLargestContentfulPaint?: number }[] }
}
export interface Report {
  categories: Record<string, { score: number; auditRefs: { id: string; weight: number }[] }>
  audits: Record<string, Audit>
}
export interface Figures {
  path: string
  scores: number[] // 0 to 100, in the order of CATEGORIES
  lcpMs: number // observed
  slowLcpMs: number // simulated: slow 4G, a quarter of the processor
  layoutShift: number
  bytes: number // transferred
  lowered: string[] // the audits that lowered a score
}

export function toFigures(path: string, { categories, audits }: Report): Figures {
  const lowered = CATEGORIES.flatMap((name) => categories[name].auditRefs)
    .filter(({ id, weight }) => weight > 0 && audits[id].score !== null && audits[id].score < 1)
    .map(({ id }) => `${id}: ${audits[id].displayValue ?? audits[id].title}`)
  return {
    path,
    scores: CATEGORIES.map((name) => Math.round(100 * categories[name].score)),
    lcpMs: audits.metrics.details?.items?.[0]?.observedLargestContentfulPaint ?? Number.NaN,
    slowLcpMs: audits['largest-contentful-paint'].numericValue ?? Number.NaN,
    layoutShift: audits['cumulative-layout-shift'].numericValue ?? Number.NaN,
    bytes: audits['total-byte-weight'].numericValue ?? Number.NaN,
    lowered,
  }
}

/** What is outside its bound; a figure that is missing is, too. */
export function listBeyond({ path, scores, lcpMs, layoutShift, bytes }: Figures): string[] {
  const beyond = CATEGORIES.filter((_, i) => !(scores[i] >= SCORE_MIN)).map(
    (name) => `${name} below ${SCORE_MIN}`,
  )
  if (!(lcpMs < LCP_MS_MAX)) beyond.push(`largest contentful paint of ${LCP_MS_MAX} ms or more`)
  if (!(layoutShift < LAYOUT_SHIFT_MAX)) beyond.push(`layout shift of ${LAYOUT_SHIFT_MAX} or more`)
  if (path === '/' && !(bytes < FIRST_PAGE_BYTES_MAX))
    beyond.push(`${FIRST_PAGE_BYTES_MAX / 1024} KiB or more`)
  return beyond
}

export function formatTable(all: Figures[]): string {
  const head =
    '| page | performance | accessibility | best practices | SEO | LCP | LCP, slow phone | CLS | transferred |'
  const rows = all.map(({ path, scores, lcpMs, slowLcpMs, layoutShift, bytes }) => {
    const figures = [`${Math.round(lcpMs)} ms`, `${Math.round(slowLcpMs)} ms`, layoutShift.toFixed(3)]
    return `| ${[path, ...scores, ...figures, `${(bytes / 1024).toFixed(1)} KiB`].join(' | ')} |`
  })
  const notes = all.flatMap((figures) => [
    ...listBeyond(figures).map((what) => `${figures.path}: BEYOND ITS BOUND: ${what}`),
    ...figures.lowered.map((what) => `${figures.path}: ${what}`),
  ])
  return `${[head, `|${'---|'.repeat(9)}`, ...rows, '', ...notes].join('\n')}\n`
}
