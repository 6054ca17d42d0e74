/**
 * Updates series from snapshots: each name is mapped once, and later only its growth is added.
 *
 *     ….shop.user.total_hits.__zone=b   17, applied 12   ──►   ratelimit_service_rate_limit_total_hits{…,zone="b"} += 5
 *
 * Several names may share a series (rules whose first two keys are the same). Tags become labels and are not part of the
 * mapped name (Q14). The series of statsd_exporter about itself are included.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { NAMES_MAX, type NativeStats, type Snapshot } from '../sink.ts'
import { splitTags, type Tags, withTags } from '../tags.ts'
import { labelName, labelText, metricName } from './labels.ts'
import type { MappedType, Mapper, Observer } from './mapper.ts'
import { DEFAULT_HELP } from './mapper-file.ts'
import { applyNative } from './native.ts'
import { observe, Refusal, type Series, SeriesTable } from './series.ts'

const PORTION = 1_000 // values before other work gets a turn: 10 to 20 ms when all names are new

/** The series of a name, and what has been added to it. */
interface MappedStat {
  outcome: 'map' | 'drop' | 'unmapped' | 'empty_metric_name'
  series: Series | Refusal | null // null = dropped
  scale: number
  applied: number
  appliedByMs: Map<number, number> | null // of a timer
}

export interface SeriesUpdaterOptions {
  mapper: Mapper
  tags: Tags
  hasNative: boolean
  nowMs: () => number
}

export class SeriesUpdater {
  readonly table = new SeriesTable()
  dropped = 0
  private readonly options: SeriesUpdaterOptions
  private readonly mappedStats = {
    counter: new Map<string, MappedStat>(),
    gauge: new Map<string, MappedStat>(),
    observer: new Map<string, MappedStat>(),
  }
  private readonly events = new Map<string, number>() // `name{labels}`
  private visitedCount = 0
  private last: Promise<void> = Promise.resolve()

  constructor(options: SeriesUpdaterOptions) {
    this.options = options
    this.count('events_unmapped_total', '', '', 0)
  }

  apply(snapshot: Snapshot): Promise<void> {
    return this.runAlone(() => this.applySnapshot(snapshot))
  }

  /** Runs tasks one after the other: no snapshot is applied while series are written. */
  runAlone<T>(task: () => Promise<T>): Promise<T> {
    const result = this.last.then(task)
    this.last = result.then(
      () => {},
      () => {}, // reported to the caller of the task
    )
    return result
  }

  private async applySnapshot({ counters, gauges, timers, native }: Snapshot): Promise<void> {
    for (const [name, total] of counters) {
      const stat = this.getMappedStat('counter', name)
      if (stat !== null && total > stat.applied) {
        this.applyEvent('counter', stat, 1, (series, scale) => add(series, (total - stat.applied) * scale))
        stat.applied = total
      }
      if (++this.visitedCount % PORTION === 0) await nextTurn()
    }
    for (const [name, value] of gauges) {
      const stat = this.getMappedStat('gauge', name)
      if (stat !== null) this.applyEvent('gauge', stat, 1, (series, scale) => set(series, value * scale))
    }
    const nowMs = this.options.nowMs()
    for (const { name, counts } of timers) {
      const stat = this.getMappedStat('observer', name)
      if (stat === null) continue
      stat.appliedByMs ??= new Map()
      for (const [ms, count] of counts) {
        const times = count - (stat.appliedByMs.get(ms) ?? 0)
        if (times <= 0) continue
        this.applyEvent('observer', stat, times, (series, scale) => {
          if (series.kind !== 'single') observe(series, ms * scale, times, nowMs)
        })
        stat.appliedByMs.set(ms, count)
      }
    }
    if (native !== undefined && this.options.hasNative) await this.applyNativeStats(native)
    this.updateEventSeries()
  }

  private async applyNativeStats(native: NativeStats): Promise<void> {
    const labels = this.options.tags.map(([key, value]) => [labelName(key), value] as const)
    for (const _ of applyNative(this.table, native, labels)) {
      if (++this.visitedCount % PORTION === 0) await nextTurn()
    }
  }

  private getMappedStat(type: MappedType, name: string): MappedStat | null {
    const stats = this.mappedStats[type]
    const known = stats.get(name)
    if (known !== undefined) return known
    if (stats.size >= NAMES_MAX) {
      this.dropped++
      return null
    }
    const created = this.map(type, name)
    stats.set(name, created)
    return created
  }

  private map(type: MappedType, fullName: string): MappedStat {
    const { mapper, tags } = this.options
    const { base, tags: nameTags } = splitTags(withTags(fullName, tags))
    const labels = nameTags.map(([key, value]) => [labelName(key), value] as const)
    const mapped = mapper.find(base, type)
    const stat: MappedStat = { outcome: 'unmapped', series: null, scale: 1, applied: 0, appliedByMs: null }
    if (mapped === undefined) {
      stat.series = this.openSeries(type, metricName(base), labels, DEFAULT_HELP, mapper.defaultObserver)
      return stat
    }
    const { mapping, name } = mapped
    stat.outcome = mapping.isDrop ? 'drop' : name === '' ? 'empty_metric_name' : 'map'
    stat.scale = mapping.scale
    if (stat.outcome !== 'map') return stat
    const allLabels = mapping.honorLabels ? [...mapped.labels, ...labels] : [...labels, ...mapped.labels]
    stat.series = this.openSeries(type, metricName(name), allLabels, mapping.help, mapping.observer)
    return stat
  }

  private openSeries(
    type: MappedType,
    name: string,
    labels: Tags,
    help: string,
    observer: Observer,
  ): Series | Refusal {
    const text = labelText(labels)
    if (type !== 'observer') return this.table.single(name, type, text, help)
    if (observer.type === 'histogram') return this.table.histogram(name, text, help, observer.buckets)
    return this.table.summary(name, text, help, observer)
  }

  /** Applies values and counts the outcome as statsd_exporter does. */
  private applyEvent(
    type: MappedType,
    { outcome, series, scale }: MappedStat,
    times: number,
    apply: (series: Series, scale: number) => void,
  ): void {
    if (outcome === 'unmapped') this.count('events_unmapped_total', '', '', times)
    else if (outcome === 'empty_metric_name') this.count('events_error_total', 'reason', outcome, times)
    else this.count('events_actions_total', 'action', outcome, times)
    if (series === null) return
    if (!(series instanceof Refusal)) {
      apply(series, scale)
      this.count('events_total', 'type', type, times)
    } else if (series.reason === 'conflict') this.count('events_conflict_total', 'type', type, times)
    else {
      this.dropped++
      this.count('events_error_total', 'reason', 'too_many_series', times)
    }
  }

  private count(name: string, label: string, value: string, times: number): void {
    const key = label === '' ? name : `${name}{${label}="${value}"}`
    this.events.set(key, (this.events.get(key) ?? 0) + times)
  }

  private updateEventSeries(): void {
    for (const [key, count] of this.events) {
      const [name, labels = ''] = key.split(/(?=\{)/)
      const help = 'Statistics by the outcome of their mapping.'
      const series = this.table.single(`statsd_exporter_${name}`, 'counter', labels, help)
      if (!(series instanceof Refusal)) series.value = count
    }
    for (const type of ['counter', 'gauge', 'histogram', 'summary'] as const) {
      const help = 'The total number of metrics.'
      const series = this.table.single('statsd_exporter_metrics_total', 'gauge', `{type="${type}"}`, help)
      if (!(series instanceof Refusal)) series.value = this.table.countFamilies(type)
    }
  }
}

function add(series: Series, amount: number): void {
  if (series.kind === 'single' && amount >= 0) series.value += amount
}

function set(series: Series, value: number): void {
  if (series.kind === 'single') series.value = value
}
