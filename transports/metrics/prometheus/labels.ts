/**
 * Names and labels that Prometheus allows, and labels as one text, which also identifies a series.
 *
 *     ratelimit.go.heap-alloc   ──►   ratelimit_go_heap_alloc
 *     key1: a"b, domain: shop   ──►   {domain="shop",key1="a\"b"}
 */
import type { Tags } from '../tags.ts'

/** Every other character becomes `_`, consecutive dashes one `_`; a leading digit gets `_` before it. */
export function metricName(text: string): string {
  const name = text.replaceAll(/-+|[^a-zA-Z0-9_]/gu, '_')
  return /^\d/.test(name) ? `_${name}` : name
}

/** The label for a tag's key. Names reserved by histograms, summaries and Prometheus get a prefix, as Prometheus adds it. */
export function labelName(text: string): string {
  const name = metricName(text)
  return name === 'le' || name === 'quantile' || name.startsWith('__') ? `exported_${name}` : name
}

/** Sorted by name; of equal names the last wins. Empty without labels. */
export function labelText(labels: Tags): string {
  const sorted = [...new Map(labels)].sort(([a], [b]) => (a < b ? -1 : 1))
  if (sorted.length === 0) return ''
  return `{${sorted.map(([name, value]) => `${name}="${escaped(value)}"`).join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll(/[\\"\n]/g, (char) => (char === '\n' ? '\\n' : `\\${char}`))
}
