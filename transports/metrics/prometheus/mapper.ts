/**
 * From a dotted name to a metric with labels, by the mappings of statsd_exporter (spec 7.6).
 *
 *     - match: ratelimit.service.rate_limit.*.*.total_hits          ratelimit.service.rate_limit.shop.user.total_hits
 *       name: ratelimit_service_rate_limit_total_hits         ──►   ratelimit_service_rate_limit_total_hits
 *       labels: { domain: "$1", key1: "$2" }                        domain=shop, key1=user
 *
 * All globs are tried before all regular expressions, each kind in the order of the file (with `glob_disable_ordering` the
 * most literal glob first). `*` is exactly one component. Looking a name up costs a pass over the mappings, so callers
 * keep what they got.
 */
import type { Found, Pattern } from '../re2.ts'
import type { Tags } from '../tags.ts'
import type { SummaryOptions } from './series.ts'

export type MappedType = 'counter' | 'gauge' | 'observer' // an observer is a timer

/** How a timer is shown. */
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

/** What a mapping makes of a name. */
export interface Mapped {
  mapping: Mapping
  name: string
  labels: Tags
}

export class Mapper {
  readonly defaultObserver: Observer // of timers that no mapping matches
  readonly mappings: readonly Mapping[]
  private readonly globs: readonly Mapping[]
  private readonly patterns: readonly Mapping[]

  constructor(mappings: readonly Mapping[], defaultObserver: Observer, isOrdered = true) {
    this.defaultObserver = defaultObserver
    this.mappings = mappings
    this.globs = mappings.filter(({ match }) => isGlob(match))
    if (!isOrdered)
      this.globs = this.globs.toSorted((a, b) => literalFirst(a.match as string[], b.match as string[]))
    this.patterns = mappings.filter(({ match }) => !isGlob(match))
  }

  /** Undefined when nothing matches. */
  find(name: string, type: MappedType): Mapped | undefined {
    const components = name.split('.')
    for (const mapping of this.globs) {
      const captures = fits(mapping, type) && globCaptures(mapping.match as string[], components)
      if (captures) return filled(mapping, (template) => fillGlob(template, captures))
    }
    for (const mapping of this.patterns) {
      const found = fits(mapping, type) && (mapping.match as Pattern).find(name)
      if (found) return filled(mapping, (template) => fillPattern(template, found))
    }
    return undefined
  }
}

function isGlob(match: Mapping['match']): match is readonly string[] {
  return Array.isArray(match)
}

function literalFirst(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if ((a[i] === '*') !== (b[i] === '*')) return a[i] === '*' ? 1 : -1
  }
  return 0
}

function fits({ metricType }: Mapping, type: MappedType): boolean {
  return metricType === null || metricType === type
}

function globCaptures(glob: readonly string[], components: readonly string[]): string[] | null {
  if (glob.length !== components.length) return null
  const captures: string[] = []
  for (let i = 0; i < glob.length; i++) {
    if (glob[i] === '*') captures.push(components[i])
    else if (glob[i] !== components[i]) return null
  }
  return captures
}

function filled(mapping: Mapping, fill: (template: string) => string): Mapped {
  const labels = mapping.labels.map(([name, template]) => [name, fill(template)] as const)
  return { mapping, name: fill(mapping.name), labels }
}

/** `$1` or `${1}`, the first star; what has no star stays as it is. */
function fillGlob(template: string, captures: readonly string[]): string {
  return template.replaceAll(/\$\{?(\d+)\}?/g, (text, digits) => captures[Number(digits) - 1] ?? text)
}

/** As Go's Expand: `$name` takes as many letters, digits and `_` as there are; an unknown one is empty; `$$` is `$`. */
function fillPattern(template: string, { groups, names }: Found): string {
  return template.replaceAll(/\$(?:\$|\{(\w+)\}|(\w+))/g, (text, braced, bare) => {
    if (text === '$$') return '$'
    const name = braced ?? bare
    return groups[/^\d+$/.test(name) ? Number(name) : (names.get(name) ?? -1)] ?? ''
  })
}
