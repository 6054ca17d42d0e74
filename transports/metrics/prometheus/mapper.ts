/**
 * Maps a dotted name to a metric with labels by mappings of statsd_exporter (spec 7.6).
 *
 *     - match: ratelimit.service.rate_limit.*.*.total_hits          ratelimit.service.rate_limit.shop.user.total_hits
 *       name: ratelimit_service_rate_limit_total_hits         ──►   ratelimit_service_rate_limit_total_hits
 *       labels: { domain: "$1", key1: "$2" }                        domain=shop, key1=user
 *
 * All globs are tried before all regular expressions, each kind in the order of the file (with `glob_disable_ordering` the
 * most literal glob first). `*` is exactly one component. A lookup passes over all mappings, so callers keep the result of
 * each name.
 */
import type { Pattern, PatternMatch } from '../re2.ts'
import type { Tags } from '../tags.ts'
import type { SummaryOptions } from './series.ts'

export type MappedType = 'counter' | 'gauge' | 'observer' // an observer is a timer

/** The representation of a timer. */
export type Observer =
  | { type: 'histogram'; buckets: readonly number[] }
  | ({ type: 'summary' } & SummaryOptions)

export interface Mapping {
  match: readonly string[] | Pattern // the components of a glob, or a regular expression
  metricType: MappedType | null // null = any
  isDrop: boolean
  name: string
  labels: Tags
  honorLabels: boolean // tags of the value win over labels
  help: string
  scale: number
  observer: Observer
}

/** The result of a mapping for a name. */
export interface Mapped {
  mapping: Mapping
  name: string
  labels: Tags
}

export class Mapper {
  readonly defaultObserver: Observer // for timers without a mapping
  readonly mappings: readonly Mapping[]
  private readonly globs: readonly Mapping[]
  private readonly patterns: readonly Mapping[]

  constructor(mappings: readonly Mapping[], defaultObserver: Observer, isOrdered = true) {
    this.defaultObserver = defaultObserver
    this.mappings = mappings
    this.globs = mappings.filter(({ match }) => isGlob(match))
    if (!isOrdered)
      this.globs = this.globs.toSorted((a, b) =>
        compareLiteralFirst(a.match as string[], b.match as string[]),
      )
    this.patterns = mappings.filter(({ match }) => !isGlob(match))
  }

  /** Undefined if nothing matches. */
  find(name: string, type: MappedType): Mapped | undefined {
    const components = name.split('.')
    for (const mapping of this.globs) {
      const captures = matchesType(mapping, type) && matchGlob(mapping.match as string[], components)
      if (captures) return fillMapping(mapping, (template) => fillGlob(template, captures))
    }
    for (const mapping of this.patterns) {
      const found = matchesType(mapping, type) && (mapping.match as Pattern).find(name)
      if (found) return fillMapping(mapping, (template) => fillPattern(template, found))
    }
    return undefined
  }
}

function isGlob(match: Mapping['match']): match is readonly string[] {
  return Array.isArray(match)
}

function compareLiteralFirst(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if ((a[i] === '*') !== (b[i] === '*')) return a[i] === '*' ? 1 : -1
  }
  return 0
}

function matchesType({ metricType }: Mapping, type: MappedType): boolean {
  return metricType === null || metricType === type
}

function matchGlob(glob: readonly string[], components: readonly string[]): string[] | null {
  if (glob.length !== components.length) return null
  const captures: string[] = []
  for (let i = 0; i < glob.length; i++) {
    if (glob[i] === '*') captures.push(components[i])
    else if (glob[i] !== components[i]) return null
  }
  return captures
}

function fillMapping(mapping: Mapping, fill: (template: string) => string): Mapped {
  const labels = mapping.labels.map(([name, template]) => [name, fill(template)] as const)
  return { mapping, name: fill(mapping.name), labels }
}

/** `$1` or `${1}` is the first star; a placeholder without a star is kept. */
function fillGlob(template: string, captures: readonly string[]): string {
  return template.replaceAll(/\$\{?(\d+)\}?/g, (text, digits) => captures[Number(digits) - 1] ?? text)
}

/** As Go's Expand: `$name` extends over all letters, digits and `_`; an unknown name is empty; `$$` is `$`. */
function fillPattern(template: string, { groups, names }: PatternMatch): string {
  return template.replaceAll(/\$(?:\$|\{(\w+)\}|(\w+))/g, (text, braced, bare) => {
    if (text === '$$') return '$'
    const name = braced ?? bare
    return groups[/^\d+$/.test(name) ? Number(name) : (names.get(name) ?? -1)] ?? ''
  })
}
