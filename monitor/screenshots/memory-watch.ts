/** Ends a browser that takes too much memory: a page may allocate without bound outside the heap of its scripts. Linux only. */
import { readFile } from 'node:fs/promises'

const EVERY_MS = 250

export interface MemoryWatch {
  stop(): void
}

/** `pids`: of all processes of the browser now. `onExceeded` is called at most once. */
export function watchMemory(
  pids: () => Promise<number[]>,
  bytesMax: number,
  onExceeded: (bytes: number) => void,
): MemoryWatch {
  let timer: NodeJS.Timeout
  let isStopped = process.platform !== 'linux'
  const check = async () => {
    const bytes = await pids().then(sumMemory, () => 0) // the browser has ended
    if (isStopped) return
    if (bytes > bytesMax) {
      isStopped = true
      onExceeded(bytes)
    } else timer = setTimeout(check, EVERY_MS)
  }
  if (!isStopped) timer = setTimeout(check, EVERY_MS)
  return {
    stop: () => {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/** Bytes that are resident and of no file; pages of files are shared by all processes. */
async function sumMemory(pids: readonly number[]): Promise<number> {
  const statuses = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')),
  )
  let bytes = 0
  for (const status of statuses) {
    for (const [, kib] of status.matchAll(/^Rss(?:Anon|Shmem):\s{0,20}(\d{1,15}) kB$/gm))
      bytes += Number(kib) * 1_024
  }
  return bytes
}
