/** The reader's thread, as its owner sees it: started by the first request, and by the next one after it has ended. */
import { Worker } from 'node:worker_threads'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import { PendingRequests } from './pending-requests.ts'
import type { ReaderRequest, ReaderResponse } from './reader-thread.ts'
import { QUIET } from './thread-flags.ts'

export class ReaderClient {
  private readonly path: string
  private readonly log: Log
  private readonly requests = new PendingRequests()
  private worker: Worker | null = null
  private ended: Promise<void> = Promise.resolve()
  private isClosed = false

  constructor(path: string, log: Log) {
    this.path = path
    this.log = log
  }

  read<T>(method: string, args: unknown[]): Promise<T> {
    if (this.isClosed) return Promise.reject(new Error('the store is closed'))
    this.worker ??= this.start()
    return this.requests.add((id) => this.post({ id, method, args }))
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.post({ id: 0, method: 'close', args: [] })
    await this.ended
  }

  private start(): Worker {
    const file = resolveModule('./reader-thread.ts', import.meta.url)
    const worker = new Worker(file, {
      workerData: { path: this.path },
      name: 'monitor-store',
      execArgv: QUIET,
    })
    let failure: Error | null = null
    worker.on('message', (response: ReaderResponse) => this.requests.settle(response))
    worker.on('error', (error) => {
      failure = error as Error
      this.log('error', `the monitor's reader ended: ${failure.message}`)
    })
    this.ended = new Promise((resolve) => {
      worker.on('exit', () => {
        this.worker = null
        this.requests.rejectAll(failure ?? new Error('the store is closed'))
        resolve()
      })
    })
    return worker
  }

  private post(request: ReaderRequest): void {
    this.worker?.postMessage(request)
  }
}
