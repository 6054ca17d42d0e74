/**
 * `/debug/threads`: how each thread is, measured for a second while you wait.
 *
 *     worker 0              up 3h2m, thread 4711
 *       event loop          62.1 % busy, waits: 0.1 ms at least, 0.4 ms mean, 2.0 ms p99, 6.1 ms at most
 *       heap                14.2 MiB used of 21.5 MiB, 3.1 MiB outside
 *       gRPC                12 connections, 3 calls
 *       Redis               2 batches on their way, …
 */

import type { ThreadStats } from '../../engine/runtime/inspection/messages.ts'
import { goDuration } from '../../engine/stores/connect-retry.ts'
import type { Inspection } from './inspect.ts'

const NAME_CHARS = 16
const MIB = 2 ** 20

export function threadsText({ found, nativeIds, missing }: Inspection<ThreadStats>): string {
  const parts = [...found].map(([thread, pulse]) => threadText(thread, nativeIds.get(thread) ?? 0, pulse))
  return [...parts, ...missing.map((each) => `${each}\n`)].join('\n')
}

function threadText(thread: string, nativeId: number, pulse: ThreadStats): string {
  const { uptimeSec, delayMs, busyShare, heapUsedBytes, heapTotalBytes, externalBytes, facts } = pulse
  const { min, mean, p99, max } = delayMs
  const native = nativeId === 0 ? '' : `, thread ${nativeId}`
  const waits = `${ms(min)} at least, ${ms(mean)} mean, ${ms(p99)} p99, ${ms(max)} at most`
  const heap = `${mib(heapUsedBytes)} used of ${mib(heapTotalBytes)}, ${mib(externalBytes)} outside`
  const lines = [
    ['event loop', `${(100 * busyShare).toFixed(1)} % busy, waits: ${waits}`],
    ['heap', heap],
    ...facts,
  ]
  const head = `${thread.padEnd(NAME_CHARS + 2)}up ${goDuration(Math.round(uptimeSec) * 1_000)}${native}\n`
  return head + lines.map(([name, text]) => `  ${name.padEnd(NAME_CHARS)}${text}\n`).join('')
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`
}

function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`
}
