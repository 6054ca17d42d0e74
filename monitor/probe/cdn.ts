/**
 * Is there a content delivery network in front of the site, and which? One strong mark or two weak ones identify a provider;
 * the one with the most wins (spec 6.2). Evidence never quotes the site: `header:cf-ray`, `cname:fastly.net`, `cidr`.
 */
import type { Address, Range } from '../egress/address.ts'
import { contains, parseAddress, parseRange } from '../egress/address.ts'
import type { NetworkFacts } from '../facts.ts'
import { CNAME_MARKS, HEADER_MARKS, RANGE_MARKS } from './cdn-table.ts'

const STRENGTHS = { strong: 2, weak: 1 }
const ENOUGH = 2

const RANGES: readonly (readonly [string, Range])[] = Object.entries(RANGE_MARKS).flatMap(
  ([provider, texts]) => texts.map((text) => [provider, parseRange(text) as Range] as const),
)

export interface CdnTraces {
  headers: ReadonlyMap<string, string> // lower case
  cnames: readonly string[]
  address: string | null
}

export function detectCdn({ headers, cnames, address }: CdnTraces): NetworkFacts['cdn'] {
  const found = new Map<string, { strength: number; evidence: string[] }>()
  const addMark = (provider: string, strength: keyof typeof STRENGTHS, evidence: string) => {
    const entry = found.get(provider) ?? { strength: 0, evidence: [] }
    if (entry.evidence.includes(evidence)) return
    found.set(provider, {
      strength: entry.strength + STRENGTHS[strength],
      evidence: [...entry.evidence, evidence],
    })
  }
  for (const { provider, strength, header, matches } of HEADER_MARKS) {
    const isPresent = header.endsWith('*')
      ? [...headers.keys()].some((name) => name.startsWith(header.slice(0, -1)))
      : headers.has(header) && (matches?.test(headers.get(header) as string) ?? true)
    if (isPresent) addMark(provider, strength, `header:${header}`)
  }
  for (const [end, provider] of CNAME_MARKS) {
    if (cnames.some((name) => name === end || name.endsWith(`.${end}`)))
      addMark(provider, 'strong', `cname:${end}`)
  }
  const bytes: Address | null = parseAddress(address ?? '')
  const range = bytes && RANGES.find(([, candidate]) => contains(candidate, bytes))
  if (range) addMark(range[0], 'strong', 'cidr')

  const [best] = [...found].sort((a, b) => b[1].strength - a[1].strength)
  if (best === undefined || best[1].strength < ENOUGH) return { provider: null, evidence: [] }
  return { provider: best[0], evidence: best[1].evidence }
}
