/** Memory of a process, as Linux reports it. */
import { readFileSync } from 'node:fs'

/** Resident set size. `pid` defaults to this process. */
export function readRssBytes(pid: number | 'self' = 'self'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) * 1_024
}
