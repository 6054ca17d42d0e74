/**
 * A thread for one kind of job, one at a time: loading rules, loading sites, evaluating them. It starts with the first job
 * and ends when idle, which frees its memory. Threads that serve requests therefore never parse.
 */
import { Piscina } from 'piscina'

export interface JobThreadOptions {
  idleMs: number // then the thread ends; a new one costs 0.1 s
  execArgv?: string[]
}

/** `file`: its default export is the job. */
export function jobThread(file: URL, { idleMs, execArgv }: JobThreadOptions): Piscina {
  return new Piscina({
    filename: file.href,
    minThreads: 0,
    maxThreads: 1,
    atomics: 'disabled',
    idleTimeout: idleMs,
    ...(execArgv && { execArgv }),
  })
}
