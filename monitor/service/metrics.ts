/**
 * Metrics of the monitor (spec 12), as counters and gauges of the service's statistics. One name per combination of label
 * values, such as `sluice.monitor.http_requests.GET.200./api/v1/sites`, so that every sink supports them.
 *
 *     counters   http_requests, http_ms, rate_limited, quota_failures, probes, screenshots
 *     gauges     probe_lag_seconds, egress_denied, detections, store_queue, catalogue_sites, vantage_online, …   each second
 */
import type { Stats } from '../../engine/stats/stats.ts'
import type { RequestLine } from '../api/options.ts'
import { QUOTA_KINDS } from '../api/quota.ts'
import type { Probe, Region } from '../facts.ts'
import type { ProberMetrics } from '../prober/messages.ts'
import { isOnline } from '../scoring/regions.ts'
import type { ScreenshotReason } from '../screenshots/failure.ts'
import type { VantageState } from '../storage/snapshot.ts'
import type { StoreMetrics } from '../storage/store.ts'

const PREFIX = 'sluice.monitor.'

export type Gauges = [name: string, value: number][]

/** The number of names is bounded: routes are patterns, methods and codes come from small sets. */
export class Metrics {
  private readonly stats: Stats

  constructor(stats: Stats) {
    this.stats = stats
    for (const kind of QUOTA_KINDS) stats.counter(`${PREFIX}quota_failures.${kind}`) // exported at 0, for alerts
  }

  request({ route, method, status, ms }: RequestLine): void {
    this.count(`http_requests.${method}.${status}.${route}`)
    this.count(`http_ms.${route}`, ms)
  }

  limited(quotaClass: string): void {
    this.count(`rate_limited.${quotaClass}`)
  }

  quotaFailed(kind: string): void {
    this.count(`quota_failures.${kind}`)
  }

  probe(region: Region, { outcome, timings }: Probe): void {
    this.count(`probes.${region}.${outcome}`)
    const { dnsMs, connectMs, tlsMs, ttfbMs } = timings
    for (const [phase, ms] of Object.entries({ dns: dnsMs, connect: connectMs, tls: tlsMs, ttfb: ttfbMs })) {
      if (ms !== null) this.count(`probe_ms.${phase}`, ms)
    }
  }

  screenshot(result: ScreenshotReason | 'taken'): void {
    this.count(result === 'taken' ? 'screenshots.taken' : `screenshots.failed.${result}`)
  }

  private count(name: string, amount = 1): void {
    this.stats.add(this.stats.counter(PREFIX + name), amount)
  }
}

export interface States {
  prober: ProberMetrics | null
  denials: readonly ReadonlyMap<string, number>[] // of submitted URLs, of screenshots
  hasScreenshots: boolean
  vantages: readonly VantageState[]
  nowSec: number
  store: StoreMetrics
  sites: number
  agents: Record<string, number> // of agent/agent-api.ts
  refusedConnections: number
  catalogueErrors: number
  detections: { queued: number; running: number; held: number }
}

export function collectGauges({
  prober,
  denials,
  hasScreenshots,
  vantages,
  nowSec,
  store,
  sites,
  agents,
  refusedConnections,
  catalogueErrors,
  detections,
}: States): Gauges {
  const states: Record<string, number> = {
    catalogue_sites: sites,
    connections_refused: refusedConnections,
    catalogue_load_error_total: catalogueErrors,
    'detections.queued': detections.queued,
    'detections.running': detections.running,
    'detections.held': detections.held,
    store_queue: store.queuedRows,
    'store_dropped.up': store.droppedUps,
    'store_dropped.other': store.droppedOthers,
    store_refused: store.refused,
    store_failing: Number(store.isFailing),
    screenshots_enabled: Number(hasScreenshots),
    ...(prober && {
      probe_lag_seconds: prober.lagSec,
      probes_skipped: prober.skippedSlots,
      probes_lost: prober.lostRuns,
      controls_answering: Number(prober.hasConnectivity),
    }),
  }
  const denied = new Map<string, number>()
  for (const [reason, count] of [...denials, prober?.denials ?? []].flatMap((each) => [...each]))
    denied.set(reason, (denied.get(reason) ?? 0) + count)
  const named: [string, number][] = [
    ...[...denied].map(([reason, count]): [string, number] => [`egress_denied.${reason}`, count]),
    ...Object.entries(agents).map(([name, count]): [string, number] => [`agents.${name}`, count]),
    ...vantages.map(({ name, lastSeenSec }): [string, number] => {
      return [`vantage_online.${name}`, Number(isOnline(lastSeenSec ?? 0, nowSec))]
    }),
  ]
  return [...Object.entries(states), ...named].map(([name, value]) => [PREFIX + name, value])
}
