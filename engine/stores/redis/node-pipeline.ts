/**
 * The hits of one trip for one node: one write, and counts out of its replies.
 *
 *     counter                        sent                       replies
 *     seen on this connection        INCRBY a 2                 :7           5 were there before
 *     not seen                       INCRBY b 1  EXPIRE b 60    :1 :1        0
 *     seen, but gone from Redis      INCRBY c 1                 :1           0, so it is new: EXPIRE c 60 follows, in a
 *                                                                            write of its own that nobody waits for
 *
 * "Seen" is the number of the connection that EXPIRE was written to, kept in the counter (`Counter.expirySetOnConnection`). Redis runs what a
 * connection brings in order, so no counter stays without expiry: a new connection has another number, and what was
 * answered with an error, or not at all, is not seen any more. The engine keeps the counters of descriptors that come often;
 * of the others each hit makes a new one, and brings its EXPIRE. The price is one EXPIRE more when a thread meets a counter
 * that others have. Redis pays for 32 known keys 0.4 us each and for 32 met ones 0.9; the script that this replaces took
 * 1.0 for both, and 3.3 against 2.4 for new ones (bench/redis.ts).
 *
 * Gives up: a counter that is deleted by hand and made again by a hit whose reply is lost has no expiry until a thread meets
 * it anew. Two rare things at once, and the window's next counter is another one.
 */
import type { StoreError } from '../../runtime/errors.ts'
import type { NodeCall, RedisNode } from './node.ts'
import type { PipelinedBatch } from './pipelined-batch.ts'
import type { Reply } from './resp-reader.ts'
import { HitWriter } from './resp-writer.ts'

/** What became of a slot's INCRBY. */
export const ANSWERED = 0
export const REFUSED = 1
export const REDIRECTED = 2 // not run: it has been sent on
export type ReplyKind = typeof ANSWERED | typeof REFUSED | typeof REDIRECTED

const writer = new HitWriter() // of this thread

export class NodePipeline implements NodeCall {
  readonly sentMs: number
  leftCount = 0
  isGivenUp = false
  readonly node: RedisNode
  readonly slots: readonly number[]
  readonly slotsCount: number // `slots` may be longer
  private readonly trip: PipelinedBatch
  private readonly expiring: number[] = [] // places in `slots` whose EXPIRE goes with them, rising
  private at = 0 // place of the next reply
  private expiringAt = 0
  private expiringNext = -1 // expiring[expiringAt], or -1
  private isExpiry = false // the next reply is that of EXPIRE
  private answer: ReplyKind = ANSWERED // to the INCRBY before it

  constructor(trip: PipelinedBatch, node: RedisNode, slots: readonly number[], slotsCount: number) {
    this.trip = trip
    this.sentMs = trip.startMs
    this.node = node
    this.slots = slots
    this.slotsCount = slotsCount
  }

  /** In one write. Only while the node has no `refusal`. */
  send(): void {
    const { node, trip, slots, slotsCount, expiring } = this
    const { counters } = trip.batch
    const { generation } = node
    for (let place = 0; place < slotsCount; place++) {
      const counter = counters[slots[place]]
      if (counter.expirySetOnConnection === generation) continue
      counter.expirySetOnConnection = generation
      expiring.push(place)
    }
    if (expiring.length > 0) this.expiringNext = expiring[0]
    this.leftCount = slotsCount + expiring.length
    this.write()
    if (!node.send(writer.take(), this)) writer.renew()
  }

  private write(): void {
    const { trip, slots, slotsCount, expiring } = this
    const { counters, expirySec } = trip.batch
    let next = 0
    for (let place = 0; place < slotsCount; place++) {
      const slot = slots[place]
      writer.incrby(counters[slot], trip.hitsText(slot))
      if (next < expiring.length && expiring[next] === place) {
        writer.expire(counters[slot], expirySec[slot])
        next++
      }
    }
  }

  // hot: a count below 10^15 allocates nothing

  integer(value: number): void {
    if (this.isExpiry) {
      this.finish()
      return
    }
    const hasExpiry = this.expiringNext === this.at
    this.trip.counted(this.slots[this.at], value, hasExpiry)
    if (hasExpiry) this.expiryFollows(ANSWERED)
    else this.finish()
  }

  reply(value: Reply): void {
    const slot = this.slots[this.at]
    if (this.isExpiry) {
      if (this.answer === ANSWERED) this.trip.expired(slot, value)
      this.finish()
      return
    }
    const hasExpiry = this.expiringNext === this.at
    const answer = this.trip.replied(slot, value, this.node, hasExpiry)
    if (hasExpiry) this.expiryFollows(answer)
    else {
      this.answer = answer
      this.finish()
    }
  }

  fail(error: StoreError): void {
    const first = this.answer === REDIRECTED ? this.at + 1 : this.at
    const count = this.slotsCount - first
    for (let place = first; place < this.slotsCount; place++) this.trip.failed(this.slots[place], error)
    this.at = this.slotsCount
    if (count > 0) this.trip.finished(count)
  }

  /** INCRBY has its reply. */
  private expiryFollows(answer: ReplyKind): void {
    this.isExpiry = true
    this.answer = answer
    this.expiringAt++
    this.expiringNext = this.expiringAt < this.expiring.length ? this.expiring[this.expiringAt] : -1
  }

  private finish(): void {
    const { answer } = this
    this.isExpiry = false
    this.answer = ANSWERED
    this.at++
    if (answer !== REDIRECTED) this.trip.finished(1)
  }
}
