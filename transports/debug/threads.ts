/**
 * `/debug/threads`: the state of each thread, measured for a second during the request.
 *
 *     worker 0              up 3h2m, thread 4711
 *       event loop          62.1 % busy, waits: 0.1 ms at least, 0.4 ms mean, 2.0 ms p99, 6.1 ms at most
 *       heap                14.2 MiB used of 21.5 MiB, 3.1 MiB outside
 *       gRPC                12 connections, 3 calls
 *       Redis               2 batches in flight, …
 */
import type { ThreadStats } from '../../engine/runtime/inspection/messages.ts'
import { goDuration } from '../../engine/stores/connect-retry.ts'
import type { Inspection } from './inspect.ts'

const NAME_CHARS = 16
const MIB = 2 ** 20

export function threadsText({ found, nativeIds, missing }: Inspection<ThreadStats>): string {
  const parts = [...found].map(([thread, stats]) => threadText(thread, nativeIds.get(thread) ?? 0, stats))
  return [...parts, ...missing.map((each) => `${each}\n`)].join('\n')
}

function threadText(thread: string, nativeId: number, stats: ThreadStats): string {
  const { uptimeSec, delayMs, busyShare, heapUsedBytes, heapTotalBytes, externalBytes, facts } = stats
  const { min, mean, p99, max } = delayMs
  const threadId = nativeId === 0 ? '' : `, thread ${nativeId}`
  const waits = `${toMs(min)} at least, ${toMs(mean)} mean, ${toMs(p99)} p99, ${toMs(max)} at most`
  const heap = `${toMib(heapUsedBytes)} used of ${toMib(heapTotalBytes)}, ${toMib(externalBytes)} outside`
  const lines = [
    ['event loop', `${(100 * busyShare).toFixed(1)} % busy, waits: ${waits}`],
    ['heap', heap],
    ...facts,
  ]
  const head = `${thread.padEnd(NAME_CHARS + 2)}up ${goDuration(Math.round(uptimeSec) * 1_000)}${threadId}\n`
  return head + lines.map(([name, text]) => `  ${name.padEnd(NAME_CHARS)}${text}\n`).join('')
}

function toMs(value: number): string {
  return `${value.toFixed(1)} ms`
}

function toMib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`
}
