/**
 * Streams that we ended while the peer still talked. Its frames were under way by then: no fault. The last
 * ENDED_STREAMS_MAX are known; most connections have none and pay nothing.
 */
import { ENDED_STREAMS_MAX } from './bounds.ts'

export class EndedStreams {
  private ids: Int32Array | null = null
  private next = 0

  add(id: number): void {
    this.ids ??= new Int32Array(ENDED_STREAMS_MAX)
    this.ids[this.next] = id
    this.next = (this.next + 1) % ENDED_STREAMS_MAX
  }

  has(id: number): boolean {
    return this.ids?.includes(id) ?? false
  }
}
