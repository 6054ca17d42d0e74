/**
 * What a scraper can read, from its headers.
 *
 *     Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4   ──►  text
 *     Accept: application/openmetrics-text                                                       ──►  openmetrics
 *     Accept-Encoding: gzip, deflate;q=0.5                                                       ──►  gzip
 *
 * Plain text for every client that accepts it, although Prometheus asks for OpenMetrics first: the reference knows text alone (measured), and
 * in the other format counters lose their type and `le="1"` is `le="1.0"`, another series on every dashboard.
 */
import type { Format } from './exposition.ts'

/** OpenMetrics where it is named and no text is welcome. */
export function formatFor(accept: string): Format {
  const openmetrics = parseWeight(accept, (type) => type === 'application/openmetrics-text')
  const text = parseWeight(accept, (type) => TEXT_TYPES.includes(type))
  return openmetrics > 0 && text === 0 ? 'openmetrics' : 'text'
}

const TEXT_TYPES = ['text/plain', 'text/*', '*/*']

export function takesGzip(acceptEncoding: string): boolean {
  return parseWeight(acceptEncoding, (coding) => coding === 'gzip' || coding === 'x-gzip') > 0
}

/** The highest `q` of the items that are meant; 0 for none. */
function parseWeight(header: string, isMeant: (item: string) => boolean): number {
  const weights = header.split(',').flatMap((item) => {
    const [name, ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
    if (!isMeant(name)) return []
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    return [q === undefined ? 1 : Number(q.slice(2)) || 0]
  })
  return Math.max(0, ...weights)
}
