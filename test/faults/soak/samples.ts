/**
 * Samples of a running service: memory, descriptors and threads from /proc, and of each thread what `/debug/threads` measured for a second.
 */
import { readdirSync, readFileSync } from 'node:fs'

export interface ProcessSample {
  rssBytes: number
  descriptors: number
  threads: number
}

export interface ThreadsSample {
  heapBytes: number // used, of all threads
  externalBytes: number // memory outside their heaps, owned by objects in them
  mainDelayMs: number // event loop delay, p99 of the second
  workerDelayMs: number // that of the slowest worker
}

/** Null if the process has ended. */
export function readProcess(pid: number): ProcessSample | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)![1])
    return {
      rssBytes: read('VmRSS') * 1_024,
      threads: read('Threads'),
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Reads a response of `/debug/threads`. Null if a worker is missing, as while it is replaced. */
export function parseThreads(text: string, workers: number): ThreadsSample | null {
  const threads = new Map(
    text.split('\n\n').map((part) => [/^(\S+(?: \d+)?) {2,}up /.exec(part)?.[1] ?? '', part] as const),
  )
  const names = Array.from({ length: workers }, (_, i) => `worker ${i}`)
  if (!['main', ...names].every((name) => threads.has(name))) return null
  const delayMs = (name: string) => readNumber(threads.get(name)!, /([\d.]+) ms p99/)
  const known = [...threads].filter(([name]) => name !== '').map(([, part]) => part)
  return {
    heapBytes: sumMib(known, /heap {2,}([\d.]+) MiB used/),
    externalBytes: sumMib(known, /([\d.]+) MiB outside/),
    mainDelayMs: delayMs('main'),
    workerDelayMs: Math.max(...names.map(delayMs)),
  }
}

function sumMib(parts: readonly string[], pattern: RegExp): number {
  return parts.reduce((sum, part) => sum + readNumber(part, pattern) * 2 ** 20, 0)
}

function readNumber(text: string, pattern: RegExp): number {
  const found = pattern.exec(text)
  if (!found) throw new Error(`no ${pattern.source} in:\n${text}`)
  return Number(found[1])
}

/** Requests `/debug/threads` again and again; each request takes the second that it measures. */
export class ThreadsPoller {
  private readonly url: string
  private readonly workers: number
  private readonly onSample: (sample: ThreadsSample) => void
  private readonly ending = new AbortController()
  private readonly done: Promise<void>

  constructor(debugUrl: string, workers: number, onSample: (sample: ThreadsSample) => void) {
    this.url = `${debugUrl}/debug/threads`
    this.workers = workers
    this.onSample = onSample
    this.done = this.poll()
    this.done.catch(() => {}) // reported by `stop`
  }

  async stop(): Promise<void> {
    this.ending.abort()
    await this.done
  }

  private async poll(): Promise<void> {
    const { signal } = this.ending
    try {
      while (!signal.aborted) {
        const response = await fetch(this.url, { signal })
        const text = await response.text()
        const sample = response.ok ? parseThreads(text, this.workers) : null
        if (sample !== null) this.onSample(sample)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
}
