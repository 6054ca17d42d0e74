/**
 * Snapshots become series: each name is mapped once, and from then on its growth is added.
 *
 *     ….shop.user.total_hits.__zone=b   17, told 12   ──►   ratelimit_service_rate_limit_total_hits{…,zone="b"} += 5
 *
 * Several names may lead to one series (rules whose first two keys are the same). Tags become labels of their own and play
 * no part in mapping (Q14). What statsd_exporter tells of itself is told here, too.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { NAMES_MAX, type NativeStats, type Snapshot } from '../sink.ts'
import { splitTags, type Tags, withTags } from '../tags.ts'
import { labelName, labelText, metricName } from './labels.ts'
import type { MappedType, Mapper, Observer } from './mapper.ts'
import { DEFAULT_HELP } from './mapper-file.ts'
import { applyNative } from './native.ts'
import { observe, Refusal, type Series, SeriesTable } from './series.ts'

const PORTION = 2_000 // values before others get a turn: some milliseconds when all are new

/** Where a name's values go. */
interface MappedStat {
  outcome: 'map' | 'drop' | 'unmapped' | 'empty_metric_name'
  series: Series | Refusal | null // null = nowhere
  scale: number
  applied: number
  appliedOfMs: Map<number, number> | null // of a timer
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
  private takenCount = 0
  private last: Promise<void> = Promise.resolve()

  constructor(options: SeriesUpdaterOptions) {
    this.options = options
    this.count('events_unmapped_total', '', '', 0)
  }

  take(snapshot: Snapshot): Promise<void> {
    return this.alone(() => this.takeNow(snapshot))
  }

  /** Tasks run one after the other: nothing is taken while series are written out, and the other way round. */
  alone<T>(task: () => Promise<T>): Promise<T> {
    const result = this.last.then(task)
    this.last = result.then(
      () => {},
      () => {}, // the task's own caller hears of it
    )
    return result
  }

  private async takeNow({ counters, gauges, timers, native }: Snapshot): Promise<void> {
    for (const [name, total] of counters) {
      const target = this.getMappedStat('counter', name)
      if (target !== null && total > target.applied) {
        this.event('counter', target, 1, (series, scale) => add(series, (total - target.applied) * scale))
        target.applied = total
      }
      if (++this.takenCount % PORTION === 0) await nextTurn()
    }
    for (const [name, value] of gauges) {
      const target = this.getMappedStat('gauge', name)
      if (target !== null) this.event('gauge', target, 1, (series, scale) => set(series, value * scale))
    }
    const nowMs = this.options.nowMs()
    for (const { name, counts } of timers) {
      const target = this.getMappedStat('observer', name)
      if (target === null) continue
      target.appliedOfMs ??= new Map()
      for (const [ms, count] of counts) {
        const times = count - (target.appliedOfMs.get(ms) ?? 0)
        if (times <= 0) continue
        this.event('observer', target, times, (series, scale) => {
          if (series.kind !== 'single') observe(series, ms * scale, times, nowMs)
        })
        target.appliedOfMs.set(ms, count)
      }
    }
    if (native !== undefined && this.options.hasNative) await this.takeNative(native)
    this.applyEvents()
  }

  private async takeNative(native: NativeStats): Promise<void> {
    const labels = this.options.tags.map(([key, value]) => [labelName(key), value] as const)
    for (const _ of applyNative(this.table, native, labels)) {
      if (++this.takenCount % PORTION === 0) await nextTurn()
    }
  }

  private getMappedStat(type: MappedType, name: string): MappedStat | null {
    const targets = this.mappedStats[type]
    const known = targets.get(name)
    if (known !== undefined) return known
    if (targets.size >= NAMES_MAX) {
      this.dropped++
      return null
    }
    const made = this.map(type, name)
    targets.set(name, made)
    return made
  }

  private map(type: MappedType, fullName: string): MappedStat {
    const { mapper, tags } = this.options
    const { base, tags: ownTags } = splitTags(withTags(fullName, tags))
    const labels = ownTags.map(([key, value]) => [labelName(key), value] as const)
    const mapped = mapper.find(base, type)
    const target: MappedStat = { outcome: 'unmapped', series: null, scale: 1, applied: 0, appliedOfMs: null }
    if (mapped === undefined) {
      target.series = this.open(type, metricName(base), labels, DEFAULT_HELP, mapper.defaultObserver)
      return target
    }
    const { mapping, name } = mapped
    target.outcome = mapping.isDrop ? 'drop' : name === '' ? 'empty_metric_name' : 'map'
    target.scale = mapping.scale
    if (target.outcome !== 'map') return target
    const all = mapping.honorLabels ? [...mapped.labels, ...labels] : [...labels, ...mapped.labels]
    target.series = this.open(type, metricName(name), all, mapping.help, mapping.observer)
    return target
  }

  private open(
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

  /** Counts what happens to a value as statsd_exporter does, and lets it happen. */
  private event(
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

  private applyEvents(): void {
    for (const [key, count] of this.events) {
      const [name, labels = ''] = key.split(/(?=\{)/)
      const help = 'What became of statistics on their way to series.'
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
