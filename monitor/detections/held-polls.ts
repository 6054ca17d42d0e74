/**
 * Requests that are held until a detection has news (spec 3.5): at most 2 per client and 200 in all; who comes beyond
 * is answered at once. A held request is a callback and a timer, no thread and no poll.
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

  /** Calls back once: on news, when the time is up, or at once when too many wait. Returns how to give up earlier. */
  hold(id: string, client: string, waitMs: number, done: () => void): () => void {
    const ofClient = [...this.held].filter((each) => each.client === client).length
    if (this.isClosed || ofClient >= HELD_PER_CLIENT || this.held.size >= HELD_MAX) {
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

  /** There is news of this detection. */
  wake(id: string): void {
    for (const each of [...this.held]) if (each.id === id) each.release()
  }

  /** Everybody goes, and nobody is held from now on. */
  close(): void {
    this.isClosed = true
    for (const each of [...this.held]) each.release()
  }
}
