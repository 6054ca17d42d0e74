/**
 * Client telemetry as Datadog's clients send it and its dashboards expect it (spec 7.5): one line per metric and flush.
 *
 *     datadog.dogstatsd.client.metrics:99|c|#env:prod,client:sluice,client_version:0.1.0,client_transport:udp
 *     datadog.dogstatsd.client.packets_dropped:3|c|#env:prod,…
 *
 * Metrics that are always 0 here are omitted: events, service checks, other types, packets dropped by a queue. The queue here
 * refuses values, which count as `metric_dropped_on_receive`.
 */
import { VERSION } from '../../engine/runtime/version.ts'
import type { SentTotals } from './lines.ts'

export type ClientTransport = 'udp' | 'uds-stream'

/** Lines with the growth since the last call, also if zero. `globals`: tags of every line; `ending`: the end of every line. */
export function telemetry(
  globals: readonly string[],
  transport: ClientTransport,
  ending: string,
): (sent: SentTotals) => string[] {
  const own = ['client:sluice', `client_version:${VERSION}`, `client_transport:${transport}`]
  let before: number[] = []
  return (sent) => {
    const values = telemetryValues(sent)
    const lines = values.map(([name, value, ...tags], i) => {
      const all = [...globals, ...own, ...tags].join(',')
      return `datadog.dogstatsd.client.${name}:${value - (before[i] ?? 0)}|c|#${all}${ending}\n`
    })
    before = values.map(([, value]) => value)
    return lines
  }
}

/** Since the start. */
function telemetryValues({
  counters,
  gauges,
  timed,
  refused,
  sent,
  lost,
}: SentTotals): [string, number, ...string[]][] {
  return [
    ['metrics', counters + gauges + timed],
    ['metrics_by_type', counters, 'metrics_type:count'],
    ['metrics_by_type', gauges, 'metrics_type:gauge'],
    ['metrics_by_type', timed, 'metrics_type:timing'],
    ['metric_dropped_on_receive', refused],
    ['packets_sent', sent.packets],
    ['packets_dropped', lost.packets],
    ['packets_dropped_writer', lost.packets],
    ['bytes_sent', sent.bytes],
    ['bytes_dropped', lost.bytes],
    ['bytes_dropped_writer', lost.bytes],
  ]
}
