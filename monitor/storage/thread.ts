/** A worker thread and the requests it has not answered yet; if it ends, they are rejected. */
import { Worker } from 'node:worker_threads'

const REQUESTS_MAX = 1_000 // beyond, requests are rejected at once
const QUIET = ['--disable-warning=ExperimentalWarning'] // of node:sqlite, once per thread

interface Waiting {
  resolve: (value: never) => void
  reject: (error: Error) => void
}

export class Thread {
  readonly worker: Worker
  readonly ended: Promise<void>
  private readonly waiting = new Map<number, Waiting>()
  private nextId = 1

  /** `onEnd` is called once, with null if the thread ended without an error. */
  constructor(file: URL, workerData: unknown, onEnd: (error: Error | null) => void) {
    this.worker = new Worker(file, { workerData, name: 'monitor-store', execArgv: QUIET })
    this.ended = new Promise((resolve) => {
      let failure: Error | null = null
      this.worker.on('error', (error) => {
        failure = error as Error
      })
      this.worker.on('exit', (code) => {
        if (code !== 0) failure ??= new Error(`the thread ended with code ${code}`)
        for (const { reject } of this.waiting.values()) reject(failure ?? new Error('the store is closed'))
        this.waiting.clear()
        onEnd(failure)
        resolve()
      })
    })
  }

  /** `send` posts the request with the given id; `settle` with that id completes it. */
  ask<T>(send: (id: number) => void): Promise<T> {
    if (this.waiting.size >= REQUESTS_MAX) {
      return Promise.reject(new Error(`the store has ${REQUESTS_MAX} requests pending; try again later`))
    }
    const id = this.nextId++
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve, reject })
      send(id)
    })
  }

  settle({ id, value, error }: { id: number; value?: unknown; error?: Error }): void {
    const waiting = this.waiting.get(id)
    this.waiting.delete(id)
    if (error) waiting?.reject(error)
    else waiting?.resolve(value as never)
  }
}
