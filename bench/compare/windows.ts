/**
 * The windows of a comparison: A B A B ..., each a run of the load generator in a process of its own, so that neither
 * side meets a generator warmed up by the other. Neighbours are compared with each other, so that what drifts on the
 * machine falls on both; then the median over the rounds counts, and the spread is reported.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Result } from '../load/run.ts'
import type { Given, Options } from './options.ts'
import { onOtherCore } from './services.ts'

const LOAD = fileURLToPath(new URL('../load/main.ts', import.meta.url))
const OPEN_LOOP_SHAPE = ['--connections', '4', '--streams', '100']
export const SATURATION = '4x16' // the workload whose throughput is 100 %

export interface Spread {
  median: number
  min: number
  max: number
}

/** What is measured of a side; `cpu` by the names given. */
export interface Figures {
  ratePerSec: Spread
  p50Ms: Spread
  p99Ms: Spread
  cpuUs: Record<string, Spread>
  generatorCores: Spread
  othersCores: Spread // beside generator and the processes accounted for: the noise
  lagP99Ms: Spread | null
}

export interface Comparison {
  workload: string
  a: Figures
  b: Figures
  /** How many times better A is: B's cost by A's, or A's throughput by B's. */
  ratios: Record<string, Spread>
}

export async function compare(
  options: Options,
  workload: string,
  sides: { a: Given; b: Given },
): Promise<Comparison> {
  const rounds: { a: Result; b: Result }[] = []
  for (let i = 0; i < options.rounds; i++) {
    rounds.push({
      a: await runLoad(options, workload, sides.a),
      b: await runLoad(options, workload, sides.b),
    })
  }
  const ratio = (of: (result: Result) => number) => spread(rounds.map(({ a, b }) => of(b) / of(a)))
  const names = Object.keys(rounds[0].a.cpu).filter((name) => name in rounds[0].b.cpu)
  const ratios: Record<string, Spread> = {
    ...Object.fromEntries(names.map((name) => [name, ratio(({ cpu }) => cpu[name].usPerDecision)])),
    rate: spread(rounds.map(({ a, b }) => a.ratePerSec / b.ratePerSec)),
    p50: ratio(({ latencyMs }) => latencyMs.p50),
    p99: ratio(({ latencyMs }) => latencyMs.p99),
  }
  return { workload, a: figures(rounds.map(({ a }) => a)), b: figures(rounds.map(({ b }) => b)), ratios }
}

/** One window. */
export async function runLoad(options: Options, workload: string, { endpoint, cpu }: Given): Promise<Result> {
  const { keys, descriptors, deadline, windowMs, warmupMs } = options
  const [, rate] = /^open:(\d+)$/.exec(workload) ?? []
  const [connections, streams] = workload.split('x')
  const shape = rate
    ? [...OPEN_LOOP_SHAPE, '--rate', rate]
    : ['--connections', connections, '--streams', streams]
  const times = ['--duration', `${windowMs}ms`, '--warmup', `${warmupMs}ms`]
  const common = ['--keys', keys, '--descriptors', descriptors, '--deadline', deadline, '--json', '-']
  const accounts = cpu.flatMap((each) => ['--cpu', each])
  const load = [process.execPath, LOAD, endpoint, ...shape, ...times, ...common, ...accounts]
  const [command, ...args] = onOtherCore(load)
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code === 0) return JSON.parse(out) as Result
  const errors = out === '' ? err : JSON.stringify((JSON.parse(out) as Result).errors)
  throw new ConfigurationError({ code: 'COMPARE_LOAD', where: endpoint, what: `the load failed: ${errors}` })
}

function figures(results: Result[]): Figures {
  const of = (value: (result: Result) => number) => spread(results.map(value))
  const names = Object.keys(results[0].cpu)
  return {
    ratePerSec: of(({ ratePerSec }) => ratePerSec),
    p50Ms: of(({ latencyMs }) => latencyMs.p50),
    p99Ms: of(({ latencyMs }) => latencyMs.p99),
    cpuUs: Object.fromEntries(names.map((name) => [name, of(({ cpu }) => cpu[name].usPerDecision)])),
    generatorCores: of(({ generator }) => generator.cores),
    othersCores: of(({ othersCores }) => othersCores),
    lagP99Ms: results[0].openLoop ? of(({ openLoop }) => openLoop!.lagP99Ms) : null,
  }
}

function spread(values: number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  const median = (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2
  return { median, min: sorted[0], max: sorted.at(-1)! }
}
