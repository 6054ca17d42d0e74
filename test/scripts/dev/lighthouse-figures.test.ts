/** Bounds of `npm run lighthouse`, on reports in the form of Lighthouse's JSON. */
import { expect, test } from 'vitest'
import { formatTable, listBeyond, type Report, toFigures } from '../../../scripts/dev/lighthouse-figures.ts'

interface Changes {
  scores?: Record<string, number>
  bytes?: number
  layoutShift?: number
  lcpMs?: number | undefined
}

function createReport({ scores = {}, bytes = 20_000, layoutShift = 0, lcpMs = 200 }: Changes = {}): Report {
  const names = ['performance', 'accessibility', 'best-practices', 'seo']
  const auditRefs = (name: string) => (name === 'seo' ? [{ id: 'hreflang', weight: 1 }] : [])
  return {
    categories: Object.fromEntries(
      names.map((name) => [name, { score: scores[name] ?? 1, auditRefs: auditRefs(name) }]),
    ),
    audits: {
      hreflang: { score: scores.seo === undefined ? 1 : 0, title: 'Document has no valid hreflang' },
      metrics: {
        score: null,
        title: 'Metrics',
        details: { items: [lcpMs === undefined ? {} : { observedLargestContentfulPaint: lcpMs }] },
      },
      'largest-contentful-paint': { score: 1, title: 'LCP', numericValue: 1_300 },
      'cumulative-layout-shift': { score: 1, title: 'CLS', numericValue: layoutShift },
      'total-byte-weight': { score: 1, title: 'Bytes', numericValue: bytes },
    },
  }
}

// biome-ignore format: a table
const cases: [changes: Changes, path: string, beyond: string[]][] = [
  [{},                                        '/',            []],
  [{ scores: { performance: 0.95 } },         '/',            []],
  [{ scores: { performance: 0.94 } },         '/',            ['performance below 95']],
  [{ scores: { 'best-practices': 0.5 } },     '/leaderboard', ['best-practices below 95']],
  [{ bytes: 61_439, lcpMs: 999 },             '/',            []],
  [{ bytes: 61_440 },                         '/',            ['60 KiB or more']],
  [{ bytes: 61_440 },                         '/leaderboard', []],
  [{ layoutShift: 0.05 },                     '/',            ['layout shift of 0.05 or more']],
  [{ lcpMs: 1_000 },                          '/',            ['largest contentful paint of 1000 ms or more']],
  [{ lcpMs: Number.NaN },                     '/',            ['largest contentful paint of 1000 ms or more']],
]
test.each(cases)('%j on %s', (changes, path, beyond) => {
  expect(listBeyond(toFigures(path, createReport(changes)))).toEqual(beyond)
})

test('the table has a row per page, what is beyond its bound, and what lowered a score', () => {
  const good = toFigures('/', createReport())
  const bad = toFigures('/leaderboard', createReport({ scores: { seo: 0.9 } }))
  const lines = formatTable([good, bad]).split('\n')
  expect(lines[2]).toBe('| / | 100 | 100 | 100 | 100 | 200 ms | 1300 ms | 0.000 | 19.5 KiB |')
  expect(lines.slice(5, -1)).toEqual([
    '/leaderboard: BEYOND ITS BOUND: seo below 95',
    '/leaderboard: hreflang: Document has no valid hreflang',
  ])
})
