/**
 * Names and labels as Prometheus allows them, and labels as one text, which is also a series' identity.
 *
 *     ratelimit.go.heap-alloc   ──►   ratelimit_go_heap_alloc
 *     key1: a"b, domain: shop   ──►   {domain="shop",key1="a\"b"}
 */
import type { Tags } from '../tags.ts'

/** Every character outside [a-zA-Z0-9_] is one `_`, dashes in a row are one together; a digit in front gets one before it. */
export function metricName(text: string): string {
  const name = text.replaceAll(/-+|[^a-zA-Z0-9_]/gu, '_')
  return /^\d/.test(name) ? `_${name}` : name
}

/** A tag's key. Those with a meaning of their own in histograms and summaries are set apart, as Prometheus does it. */
export function labelName(text: string): string {
  const name = metricName(text)
  return name === 'le' || name === 'quantile' || name.startsWith('__') ? `exported_${name}` : name
}

/** Sorted by name; of equal names the last wins. Empty for none. */
export function labelText(labels: Tags): string {
  const sorted = [...new Map(labels)].sort(([a], [b]) => (a < b ? -1 : 1))
  if (sorted.length === 0) return ''
  return `{${sorted.map(([name, value]) => `${name}="${escaped(value)}"`).join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll(/[\\"\n]/g, (char) => (char === '\n' ? '\\n' : `\\${char}`))
}
