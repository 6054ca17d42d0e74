/** Commands in one write, as a node (node.ts) and the receiver of their replies see them. */
import type { StoreError } from '../../runtime/errors.ts'
import type { Reply } from './resp.ts'

/** Some commands in one write, and the receiver of their replies. */
export interface NodeCall {
  readonly sentMs: number // when the callers began to wait
  leftCount: number // replies still to come; counted down by the node
  isGivenUp: boolean // it has failed; late replies are dropped
  /** A hit of the call that may be repeated with an increment of 0, to probe the server; null = none is known. */
  readonly sample: Sample | null
  integer(value: number): void
  reply(value: Reply): void
  /** No further callback follows. The call may not have been sent. */
  fail(error: StoreError): void
}

/** A counter and how long it is kept, in seconds. */
export interface Sample {
  key: string
  expirySec: number
}

/** A call that receives all its replies together. */
export class ListCall implements NodeCall {
  readonly sentMs: number
  leftCount: number
  isGivenUp = false
  readonly sample: Sample | null
  private readonly replies: Reply[] = []
  private readonly done: (error: StoreError | null, replies: Reply[]) => void

  constructor(
    sentMs: number,
    leftCount: number,
    done: (error: StoreError | null, replies: Reply[]) => void,
    sample: Sample | null = null,
  ) {
    this.sentMs = sentMs
    this.leftCount = leftCount
    this.done = done
    this.sample = sample
  }

  integer(value: number): void {
    this.reply(value)
  }

  reply(value: Reply): void {
    this.replies.push(value)
    if (this.leftCount === 0) this.done(null, this.replies)
  }

  fail(error: StoreError): void {
    this.done(error, [])
  }
}
