/**
 * A whole service under the load generator, window by window: sides take turns, and each is compared with its neighbour,
 * so that what drifts on the machine falls on all.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { RunningService } from '../test/helpers/service.ts'
import type { Result } from './load/run.ts'
import { size } from './size.ts'

const LOAD = fileURLToPath(new URL('load/main.ts', import.meta.url))
const WARMUP = size({ small: '200ms', full: '1s' })

const SHAPE = { connections: 4, streams: 16, keys: 'zipf:100000', entries: 1 }

interface Window {
  window: string // how long
  connections?: number
  endpoint?: string // the gRPC port unless given
  shape?: Record<string, string | number> // other flags of the load generator, or other values
}

/** One window of calls in a closed loop: of one entry each with zipf keys, unless `shape` says otherwise. */
export async function loadWindow(
  service: RunningService,
  { window, connections = SHAPE.connections, endpoint, shape }: Window,
): Promise<Result> {
  const flags = Object.entries({ ...SHAPE, connections, ...shape }).flatMap(([name, value]) => [
    `--${name}`,
    String(value),
  ])
  const time = `--warmup ${WARMUP} --duration ${window} --cpu server=${service.child.pid} --json -`
  const args = [LOAD, endpoint ?? `grpc://${service.address('gRPC')}`, ...flags, ...time.split(' ')]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return JSON.parse(stdout) as Result
}

/** The middle one, and how far they spread. */
export function formatSpread(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted[Math.floor(sorted.length / 2)]
  return `${middle.toFixed(2)} (${sorted[0].toFixed(2)} to ${sorted.at(-1)!.toFixed(2)})`
}
