/** What a run prints: progress, and the figures at its end. */
import type { Point } from './recorder.ts'
import type { Cpu, Progress, Result } from './run.ts'

const LIVE_MS = 250
const OTHERS_CORES_MIN = 0.1 // printed from here; less does not change the figures
const PLAIN_MS = 1_000 // without a terminal

const whole = (value: number) => Math.round(value).toLocaleString('en-US')
const plainMs = (value: number) => (value < 10 ? value.toFixed(3) : value.toFixed(1))
const cpu = ({ usPerDecision, cores }: Cpu, decisions: number) =>
  `${decisions === 0 ? '-' : usPerDecision.toFixed(2)} us per decision (${(100 * cores).toFixed(0)} % of a core)`

/** On a terminal one line that changes; elsewhere (a pipe, a log) one line per second. */
export function createProgress(stream: { isTTY?: boolean; write(text: string): unknown }): Progress {
  const [before, after] = stream.isTTY ? ['\r\x1b[K', ''] : ['', '\n']
  const print = ({ sec, ratePerSec, p50Ms, p99Ms, maxMs, errors }: Point) => {
    const ms = (value: number) => (ratePerSec === 0 ? '-' : plainMs(value))
    const failed = errors === 0 ? '' : `  errors ${whole(errors)}`
    const rate = `${sec.toFixed(1).padStart(6)} s  ${whole(ratePerSec).padStart(9)}/s`
    stream.write(`${before}${rate}  p50 ${ms(p50Ms)}  p99 ${ms(p99Ms)}  max ${ms(maxMs)} ms${failed}${after}`)
  }
  return { everyMs: stream.isTTY ? LIVE_MS : PLAIN_MS, print }
}

export function formatSummary(result: Result): string {
  const { load, latencyMs: at, openLoop, decisions } = result
  const ms = (value: number) => (decisions === 0 ? '-' : plainMs(value))
  const loop = openLoop ? `open loop, ${whole(openLoop.ratePerSec)}/s` : 'closed loop'
  const lines = [
    `${result.endpoint}   ${load.connections} connections x ${load.streams} streams, ${loop}`,
    `keys ${load.keys}, descriptors ${load.descriptors} of ${load.entries} entries; ${result.seconds.toFixed(2)} s after ${Number(load.warmupMs) / 1_000} s of warm-up${result.isCut ? ', ended early' : ''}`,
    '',
    `decisions   ${whole(result.decisions)}   ${whole(result.ratePerSec)}/s   OK ${whole(result.ok)}   OVER_LIMIT ${whole(result.overLimit)}`,
    `latency ms  p50 ${ms(at.p50)}   p75 ${ms(at.p75)}   p90 ${ms(at.p90)}   p99 ${ms(at.p99)}   p99.9 ${ms(at.p999)}   p99.99 ${ms(at.p9999)}`,
    `            min ${ms(at.min)}   mean ${ms(at.mean)}   max ${ms(at.max)}`,
    ...Object.entries(result.cpu).map(([name, used]) => `${name.padEnd(11)} ${cpu(used, decisions)}`),
    `generator   ${cpu(result.generator, decisions)}${openLoop ? `, lag p99 ${ms(openLoop.lagP99Ms)} max ${ms(openLoop.lagMaxMs)} ms` : ''}`,
    ...optionalLines(result),
    ...result.warnings.map((warning) => `WARNING     ${warning}`),
  ]
  return `${lines.join('\n')}\n`
}

/** Lines that are printed only if their value is not 0. */
function optionalLines({ openLoop, ...result }: Result): string[] {
  const lines: string[] = []
  const unconnected = openLoop?.unconnected ?? 0
  const overdue = (openLoop?.dropped ?? 0) - unconnected
  if (result.othersCores > OTHERS_CORES_MIN)
    lines.push(
      `others      ${(100 * result.othersCores).toFixed(0)} % of a core: other processes of this machine`,
    )
  if (openLoop && openLoop.held > 0)
    lines.push(`behind      ${whole(openLoop.held)} calls waited for a free stream`)
  if (overdue > 0)
    lines.push(`behind      ${whole(overdue)} calls were never made: too many were waiting before them`)
  if (unconnected > 0)
    lines.push(`behind      ${whole(unconnected)} calls were never made: no connection was open`)
  if (result.refused > 0)
    lines.push(`refused     ${whole(result.refused)} calls were refused before the server began them`)
  if (result.reconnects > 0) lines.push(`reconnects  ${whole(result.reconnects)}`)
  if (result.errorCount > 0)
    lines.push(
      `errors      ${whole(result.errorCount)} failed calls, warm-up included; in neither rate nor latency`,
    )
  for (const [reason, count] of Object.entries(result.errors))
    lines.push(`ERROR       ${whole(count)} x ${reason}`)
  return lines
}
