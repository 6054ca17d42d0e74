/**
 * The windows of a comparison: A B A B ..., each a run of the load generator in a process of its own, so that no window has a
 * generator warmed up by another. A ratio is made of two neighbouring windows, so that changes of the machine over time affect
 * both. Reported are the median of the rounds, the lowest and the highest.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Result } from '../load/run.ts'
import type { Given, Options } from './options.ts'
import { pinToOtherCore } from './services.ts'

const LOAD = fileURLToPath(new URL('../load/main.ts', import.meta.url))
const OPEN_LOOP_SHAPE = ['--connections', '4', '--streams', '100']
export const SATURATION = '4x16' // the workload whose throughput is 100 %

export interface Spread {
  median: number
  min: number
  max: number
}

/** The figures of one service; `cpuUs` by the names given. */
export interface Figures {
  ratePerSec: Spread
  p50Ms: Spread
  p99Ms: Spread
  cpuUs: Record<string, Spread>
  generatorCores: Spread
  othersCores: Spread // other processes of the machine: the noise
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
  const ratio = (read: (result: Result) => number) => toSpread(rounds.map(({ a, b }) => read(b) / read(a)))
  const names = Object.keys(rounds[0].a.cpu).filter((name) => name in rounds[0].b.cpu)
  const ratios: Record<string, Spread> = {
    ...Object.fromEntries(names.map((name) => [name, ratio(({ cpu }) => cpu[name].usPerDecision)])),
    rate: toSpread(rounds.map(({ a, b }) => a.ratePerSec / b.ratePerSec)),
    p50: ratio(({ latencyMs }) => latencyMs.p50),
    p99: ratio(({ latencyMs }) => latencyMs.p99),
  }
  return { workload, a: toFigures(rounds.map(({ a }) => a)), b: toFigures(rounds.map(({ b }) => b)), ratios }
}

/** One window. */
export async function runLoad(options: Options, workload: string, { endpoint, cpu }: Given): Promise<Result> {
  const { keys, descriptors, deadline, windowMs, calls, warmupMs } = options
  const [, rate] = /^open:(\d+)$/.exec(workload) ?? []
  const [connections, streams] = workload.split('x')
  const shape = rate
    ? [...OPEN_LOOP_SHAPE, '--rate', rate]
    : ['--connections', connections, '--streams', streams]
  const times = ['--duration', `${windowMs}ms`, '--calls', calls, '--warmup', `${warmupMs}ms`]
  const common = ['--keys', keys, '--descriptors', descriptors, '--deadline', deadline, '--json', '-']
  const processes = cpu.flatMap((each) => ['--cpu', each])
  const load = [process.execPath, LOAD, endpoint, ...shape, ...times, ...common, ...processes]
  const [command, ...args] = pinToOtherCore(load)
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

function toFigures(results: Result[]): Figures {
  const spread = (read: (result: Result) => number) => toSpread(results.map(read))
  const names = Object.keys(results[0].cpu)
  return {
    ratePerSec: spread(({ ratePerSec }) => ratePerSec),
    p50Ms: spread(({ latencyMs }) => latencyMs.p50),
    p99Ms: spread(({ latencyMs }) => latencyMs.p99),
    cpuUs: Object.fromEntries(names.map((name) => [name, spread(({ cpu }) => cpu[name].usPerDecision)])),
    generatorCores: spread(({ generator }) => generator.cores),
    othersCores: spread(({ othersCores }) => othersCores),
    lagP99Ms: results[0].openLoop ? spread(({ openLoop }) => openLoop!.lagP99Ms) : null,
  }
}

function toSpread(values: number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  const median = (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2
  return { median, min: sorted[0], max: sorted.at(-1)! }
}
