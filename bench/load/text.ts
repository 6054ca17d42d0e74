/** What a run says on the terminal: a line of progress, and the figures at its end. */
import type { Point } from './recorder.ts'
import type { Cpu, Progress, Result } from './run.ts'

const LIVE_MS = 250
const OTHERS_TOLD = 0.1 // of a core; less does not move the figures
const PLAIN_MS = 1_000 // where lines stay, fewer of them

const whole = (value: number) => Math.round(value).toLocaleString('en-US')
const plainMs = (value: number) => (value < 10 ? value.toFixed(3) : value.toFixed(1))
const cpu = ({ usPerDecision, cores }: Cpu, decisions: number) =>
  `${decisions === 0 ? '-' : usPerDecision.toFixed(2)} us per decision (${(100 * cores).toFixed(0)} % of a core)`

/** On a terminal one line that changes; elsewhere (a pipe, a log) one line per second. */
export function progressTo(stream: NodeJS.WriteStream): Progress {
  const [before, after] = stream.isTTY ? ['\r\x1b[K', ''] : ['', '\n']
  const tell = ({ sec, ratePerSec, p50Ms, p99Ms, maxMs, errors }: Point) => {
    const ms = (value: number) => (ratePerSec === 0 ? '-' : plainMs(value))
    const failed = errors === 0 ? '' : `  errors ${whole(errors)}`
    const pace = `${sec.toFixed(1).padStart(6)} s  ${whole(ratePerSec).padStart(9)}/s`
    stream.write(`${before}${pace}  p50 ${ms(p50Ms)}  p99 ${ms(p99Ms)}  max ${ms(maxMs)} ms${failed}${after}`)
  }
  return { everyMs: stream.isTTY ? LIVE_MS : PLAIN_MS, print: tell }
}

export function summary(result: Result): string {
  const { load, latencyMs: at, openLoop, decisions } = result
  const ms = (value: number) => (decisions === 0 ? '-' : plainMs(value))
  const pace = openLoop ? `open loop, ${whole(openLoop.ratePerSec)}/s` : 'closed loop'
  const lines = [
    `${result.endpoint}   ${load.connections} connections x ${load.streams} streams, ${pace}`,
    `keys ${load.keys}, descriptors ${load.descriptors} of ${load.entries} entries; ${result.seconds.toFixed(2)} s after ${Number(load.warmupMs) / 1_000} s of warm-up${result.isCut ? ', ended early' : ''}`,
    '',
    `decisions   ${whole(result.decisions)}   ${whole(result.ratePerSec)}/s   OK ${whole(result.ok)}   OVER_LIMIT ${whole(result.overLimit)}`,
    `latency ms  p50 ${ms(at.p50)}   p75 ${ms(at.p75)}   p90 ${ms(at.p90)}   p99 ${ms(at.p99)}   p99.9 ${ms(at.p999)}   p99.99 ${ms(at.p9999)}`,
    `            min ${ms(at.min)}   mean ${ms(at.mean)}   max ${ms(at.max)}`,
    ...Object.entries(result.cpu).map(([name, used]) => `${name.padEnd(11)} ${cpu(used, decisions)}`),
    `generator   ${cpu(result.generator, decisions)}${openLoop ? `, lag p99 ${ms(openLoop.lagP99Ms)} max ${ms(openLoop.lagMaxMs)} ms` : ''}`,
    ...asides(result),
    ...result.warnings.map((warning) => `WARNING     ${warning}`),
  ]
  return `${lines.join('\n')}\n`
}

/** Lines that are printed only when they have a value. */
function asides({ openLoop, ...result }: Result): string[] {
  const lines: string[] = []
  const unconnected = openLoop?.unconnected ?? 0
  const late = (openLoop?.dropped ?? 0) - unconnected
  if (result.othersCores > OTHERS_TOLD)
    lines.push(`others      ${(100 * result.othersCores).toFixed(0)} % of a core: whatever else runs here`)
  if (openLoop && openLoop.held > 0)
    lines.push(`behind      ${whole(openLoop.held)} calls waited for a free stream`)
  if (late > 0)
    lines.push(`behind      ${whole(late)} calls were never made: too many were waiting before them`)
  if (unconnected > 0)
    lines.push(`behind      ${whole(unconnected)} calls were never made: no connection stood`)
  if (result.refused > 0)
    lines.push(`refused     ${whole(result.refused)} calls, before the server began them`)
  if (result.reconnects > 0) lines.push(`reconnects  ${whole(result.reconnects)}`)
  if (result.errorCount > 0)
    lines.push(
      `errors      ${whole(result.errorCount)} failed calls, warm-up included; in neither rate nor latency`,
    )
  for (const [reason, count] of Object.entries(result.errors))
    lines.push(`ERROR       ${whole(count)} x ${reason}`)
  return lines
}
