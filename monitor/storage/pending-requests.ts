/** Requests that a thread has not responded to yet, bounded; if the thread ends, they are rejected. */
const REQUESTS_MAX = 1_000 // beyond, requests are rejected at once

interface Pending {
  resolve: (value: never) => void
  reject: (error: Error) => void
}

export class PendingRequests {
  private readonly pending = new Map<number, Pending>()
  private nextId = 1

  /** `send` posts the request with the given id; `settle` with that id completes it. */
  add<T>(send: (id: number) => void): Promise<T> {
    if (this.pending.size >= REQUESTS_MAX) {
      return Promise.reject(new Error(`the store has ${REQUESTS_MAX} requests pending; try again later`))
    }
    const id = this.nextId++
    return new Promise<T>((resolve, reject) => {
      this.pending.set(id, { resolve, reject })
      send(id)
    })
  }

  settle({ id, value, error }: { id: number; value?: unknown; error?: Error }): void {
    const request = this.pending.get(id)
    this.pending.delete(id)
    if (error) request?.reject(error)
    else request?.resolve(value as never)
  }

  rejectAll(reason: Error): void {
    for (const { reject } of this.pending.values()) reject(reason)
    this.pending.clear()
  }
}
