/**
 * What a scraper can read, from its headers.
 *
 *     Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4   ──►  openmetrics
 *     Accept-Encoding: gzip, deflate;q=0.5                                                       ──►  gzip
 */
import type { Format } from './exposition.ts'

/** OpenMetrics where it is named and not less welcome than plain text. */
export function formatFor(accept: string): Format {
  const openmetrics = weightOf(accept, (type) => type === 'application/openmetrics-text')
  const text = weightOf(accept, (type) => type === 'text/plain')
  return openmetrics > 0 && openmetrics >= text ? 'openmetrics' : 'text'
}

export function takesGzip(acceptEncoding: string): boolean {
  return weightOf(acceptEncoding, (coding) => coding === 'gzip' || coding === 'x-gzip') > 0
}

/** The highest `q` of the items that are meant; 0 for none. */
function weightOf(header: string, isMeant: (item: string) => boolean): number {
  const weights = header.split(',').flatMap((item) => {
    const [name, ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
    if (!isMeant(name)) return []
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    return [q === undefined ? 1 : Number(q.slice(2)) || 0]
  })
  return Math.max(0, ...weights)
}
