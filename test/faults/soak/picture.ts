/** The picture of a soak run. */
import { drawTimeChart, type Panel, type Series, type Tone } from '../svg.ts'
import { KINDS, type Kind } from './load.ts'
import type { SoakResult } from './run.ts'
import { type Verdict, WATCHED } from './verdict.ts'

const KIND_TONES: Record<Kind, Tone> = {
  'within limit': 'blue',
  'over limit': 'teal',
  local: 'green',
  allow: 'purple',
  deny: 'orange',
  failed: 'red',
}

export function drawSoak(result: SoakResult, { problems, unjudged }: Verdict): string {
  const reasons = [...problems, ...unjudged]
  const { samples, faults, seconds, ratePerSec } = result
  const kinds = KINDS.map((kind): Series => {
    const values = samples.map((sample) => [sample.sec, sample.counts[kind] / sample.seconds] as const)
    return { name: kind, tone: KIND_TONES[kind], values }
  })
  const p99 = samples.map(({ sec, p99Ms }) => [sec, p99Ms] as const)
  const watched = (key: keyof typeof WATCHED, tone: Tone, isDashed = false): Series => {
    const { name, values } = WATCHED[key]
    return { name: name.replace('event loop delay, ', ''), tone, isDashed, values: values(result) }
  }
  const peaks = { kind: 'lines', scale: 'log', reduce: 'max' } as const
  const means = { kind: 'lines', scale: 'linear', reduce: 'mean' } as const
  const panels: Panel[] = [
    { title: 'answers per second', kind: 'stack', scale: 'linear', reduce: 'mean', series: kinds },
    {
      ...{ title: 'time to an answer, p99 of each second, ms', ...peaks },
      series: [{ name: 'p99', tone: 'blue', values: p99 }],
    },
    {
      ...{ title: 'event loop delay, p99 of each second, ms', ...peaks },
      series: [watched('workerDelay', 'blue'), watched('mainDelay', 'orange', true)],
    },
    {
      ...{ title: 'memory, MiB', ...means },
      series: [watched('rss', 'blue'), watched('heap', 'green'), watched('external', 'orange', true)],
    },
    {
      ...{ title: 'descriptors and threads', ...means },
      series: [watched('descriptors', 'blue'), watched('threads', 'orange', true)],
    },
  ]
  const minutes = (seconds / 60).toFixed(0)
  const worstMs = Math.round(faults.reduce((worst, { backMs }) => Math.max(worst, backMs), 0))
  return drawTimeChart({
    title: `${minutes} minutes at ${ratePerSec.toLocaleString('en-US')} calls per second, ${faults.length} faults`,
    description:
      `Five panels over time: answers per second by kind, time to an answer, event loop delay, memory, descriptors and threads. ` +
      `Faults are marked by letters. After each fault all answers came from the store again, at the latest after ${worstMs} ms. ` +
      (reasons.length === 0
        ? 'Memory, descriptors, threads and event loop delay stayed flat.'
        : reasons.join('; ')),
    seconds,
    spans: faults,
    panels,
  })
}
