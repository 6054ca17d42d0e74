/**
 * The metrics of prom-client about the process and Node, as families: process_cpu_seconds_total, nodejs_gc_duration_seconds …
 */
import { collectDefaultMetrics, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client'
import { labelText } from './labels.ts'
import type { Family, MetricType, Series } from './series.ts'

type Value = MetricValue<string> & { metricName?: string }

/** Starts measuring. Returns a function that reads the values. */
export function measureProcess(): () => Promise<Family[]> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return () => toFamilies(registry)
}

/** The current content of a registry. */
export async function toFamilies(registry: Registry): Promise<Family[]> {
  const metrics = (await registry.getMetricsAsJSON()) as unknown as MetricObjectWithValues<Value>[]
  return metrics.filter(({ values }) => values.length > 0).map(toFamily)
}

function toFamily({ name, type, help, values }: MetricObjectWithValues<Value>): Family {
  const all: Series[] = type.toString() === 'histogram' ? histograms(name, values) : values.map(single)
  return {
    name,
    type: type.toString() as MetricType,
    help,
    series: new Map(all.map((one) => [one.labels, one])),
  }
}

function single({ labels, value }: Value): Series {
  return { kind: 'single', labels: labelsText(labels), value }
}

/** prom-client lists cumulative buckets in ascending order, then the sum. */
function histograms(name: string, values: readonly Value[]): Series[] {
  const known = new Map<string, Series & { kind: 'histogram' }>()
  for (const {
    labels: { le, ...labels },
    value,
    metricName,
  } of values) {
    const text = labelsText(labels)
    const series = known.get(text) ?? { kind: 'histogram', labels: text, bounds: [], counts: [], sum: 0 }
    known.set(text, series)
    if (metricName === `${name}_sum`) series.sum = value
    if (le === undefined) continue
    series.counts.push(value - series.counts.reduce((sum, count) => sum + count, 0))
    if (le !== '+Inf') series.bounds = [...series.bounds, Number(le)]
  }
  return [...known.values()]
}

function labelsText(labels: Partial<Record<string, string | number>>): string {
  return labelText(Object.entries(labels).map(([name, value]) => [name, String(value)] as const))
}
