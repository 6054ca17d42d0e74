/**
 * The native series, in addition to those of envoyproxy/ratelimit: domain and path of a rule are separate labels and may
 * contain dots.
 *
 *     sluice_hits_total{code="over_limit",domain="shop",rule="user.plan"} 4
 *     sluice_decision_duration_seconds_bucket{le="0.001"} 17
 *     sluice_limit_requests{domain="shop",rule="user.plan",unit="minute"} 100
 */
import type { NativeStats } from '../sink.ts'
import type { Tags } from '../tags.ts'
import { labelText } from './labels.ts'
import { Refusal, type SeriesTable } from './series.ts'

const HITS = 'sluice_hits_total'
const DURATION = 'sluice_decision_duration_seconds'
const LIMITS = 'sluice_limit_requests'
const HELP: Record<string, string> = {
  [HITS]:
    'Hits by rule and status. A request with hits_addend counts several; in shadow mode over_limit is allowed.',
  [DURATION]: 'Time from a gRPC request to its response, within the service.',
  [LIMITS]: 'Configured requests per unit of a rule.',
}

/** Yields after each series, so that other work can have a turn. `tags` are on every series. */
export function* applyNative(table: SeriesTable, native: NativeStats, tags: Tags): Generator<void> {
  const { boundsSec, counts, sumSec } = native.decisionTime
  const histogram = table.histogram(DURATION, labelText(tags), HELP[DURATION], boundsSec)
  if (!(histogram instanceof Refusal)) {
    histogram.counts = [...counts]
    histogram.sum = sumSec
  }
  for (const { domain, rule, code, total } of native.hits) {
    yield
    const labels = labelText([...tags, ['domain', domain], ['rule', rule], ['code', code]])
    const series = table.single(HITS, 'counter', labels, HELP[HITS])
    if (!(series instanceof Refusal)) series.value = Math.max(series.value, total)
  }
  table.remove(LIMITS) // rules that no longer exist are not reported
  for (const { domain, rule, unit, requestsPerUnit } of native.limits) {
    yield
    const labels = labelText([...tags, ['domain', domain], ['rule', rule], ['unit', unit]])
    const series = table.single(LIMITS, 'gauge', labels, HELP[LIMITS])
    if (!(series instanceof Refusal)) series.value = requestsPerUnit
  }
}
