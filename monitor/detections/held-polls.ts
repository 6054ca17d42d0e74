/**
 * Requests held until a detection changes (spec 3.5): at most 2 per client and 200 in all; a request beyond is answered at
 * once. A held request costs a callback and a timer.
 */
const HELD_PER_CLIENT = 2
const HELD_MAX = 200

interface HeldPoll {
  id: string
  client: string
  release: () => void
}

export class HeldPolls {
  private readonly held = new Set<HeldPoll>()
  private isClosed = false

  /** Calls `done` once: on a change, after `waitMs`, or at once beyond a bound. Returns a function that ends it earlier. */
  hold(id: string, client: string, waitMs: number, done: () => void): () => void {
    const clientCount = [...this.held].filter((each) => each.client === client).length
    if (this.isClosed || clientCount >= HELD_PER_CLIENT || this.held.size >= HELD_MAX) {
      done()
      return () => {}
    }
    const release = () => {
      if (!this.held.delete(held)) return
      clearTimeout(timer)
      done()
    }
    const held = { id, client, release }
    const timer = setTimeout(release, waitMs)
    this.held.add(held)
    return release
  }

  get count(): number {
    return this.held.size
  }

  /** Releases the requests of a detection that has changed. */
  wake(id: string): void {
    for (const each of [...this.held]) if (each.id === id) each.release()
  }

  /** Releases all; none is held from now on. */
  close(): void {
    this.isClosed = true
    for (const each of [...this.held]) each.release()
  }
}
