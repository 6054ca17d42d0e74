/**
 * Runs the load generator against a whole service for one window. Benchmarks compare neighbouring windows, so that changes of
 * the machine over time affect all variants.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { RunningService } from '../test/helpers/service.ts'
import type { Result } from './load/run.ts'
import { size } from './size.ts'

const LOAD = fileURLToPath(new URL('load/main.ts', import.meta.url))
/** What a service logs when it accepts calls, and how long to wait for it. */
export const LISTENING = "Listening for HTTP on '"
export const START_MS_MAX = 120_000

const WARMUP = size({ small: '0s', full: '1s' })
const CALLS = size({ small: 300, full: 0 }) // small: a window ends with its calls, however slow the machine is

const SHAPE = { connections: 4, streams: 16, keys: 'zipf:100000', entries: 1 }

interface Window {
  window: string // its length, as the generator's --duration
  connections?: number
  endpoint?: string // the gRPC port unless given
  shape?: Record<string, string | number> // flags of the load generator that differ from SHAPE
}

/** One window of calls in a closed loop: one entry each with zipf keys, unless `shape` differs. */
export async function loadWindow(
  service: RunningService,
  { window, connections = SHAPE.connections, endpoint, shape }: Window,
): Promise<Result> {
  const flags = Object.entries({ ...SHAPE, connections, ...shape }).flatMap(([name, value]) => [
    `--${name}`,
    String(value),
  ])
  const time = `--warmup ${WARMUP} --duration ${window} --calls ${CALLS} --cpu server=${service.child.pid} --json -`
  const args = [LOAD, endpoint ?? `grpc://${service.address('gRPC')}`, ...flags, ...time.split(' ')]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return JSON.parse(stdout) as Result
}

/** Median, lowest and highest. */
export function formatSpread(values: number[], digits = 2): string {
  const sorted = values.toSorted((a, b) => a - b)
  const median = sorted[Math.floor(sorted.length / 2)]
  return `${median.toFixed(digits)} (${sorted[0].toFixed(digits)} to ${sorted.at(-1)!.toFixed(digits)})`
}
