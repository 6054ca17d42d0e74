const CHARS_MAX = 512
const ELEMENTS_MAX = 32 // browsers send at most about ten

/**
 * Parses Accept-Encoding and Accept-Language: names in lower case → weights 0 to 1 (RFC 9110, 12.4.2). A malformed weight is
 * 0, so the name is not acceptable; of a repeated name the last weight counts. Read are
 * the first 32 elements that end within 512 characters.
 *
 *     'gzip, br;q=0.5'  →  { gzip: 1, br: 0.5 }
 */
export function parseQualityValues(header: string): Map<string, number> {
  const weights = new Map<string, number>()
  for (const part of cut(header).split(',', ELEMENTS_MAX)) {
    const [name, ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase())
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    const weight = q === undefined ? 1 : Number(q.slice(2))
    if (name !== '') weights.set(name, weight >= 0 && weight <= 1 ? weight : 0)
  }
  return weights
}

/** Without the element that the bound would cut in two. */
function cut(header: string): string {
  return header.length <= CHARS_MAX ? header : header.slice(0, header.lastIndexOf(',', CHARS_MAX) + 1)
}
