/** One call of a FuzzPeer: what it sends, the expected response, the response so far. */
import { ErrorCode, Flag, FrameType, WINDOW_DEFAULT } from '../../transports/grpc/http2/frames.ts'
import { Status } from '../../transports/grpc/status.ts'
import type { Fields } from './frames-blocks.ts'

export interface CallPlan {
  id: number
  fields: Fields
  body: Buffer
  hasTrailers: boolean
  statuses: readonly number[] // any of these; none: the response is not gRPC
  bytes: Buffer // of all DATA, when the status is OK
}

export class FuzzCall {
  readonly id: number
  readonly fields: Fields
  readonly body: Buffer
  readonly hasTrailers: boolean
  sent = 0
  isSent = false // with END_STREAM
  isOver = false // ended by the server
  sendWindow = WINDOW_DEFAULT
  receiveWindow = 0
  private readonly plan: CallPlan
  private readonly received: Buffer[] = []
  private hasHeaders = false

  constructor(plan: CallPlan) {
    this.plan = plan
    this.id = plan.id
    this.fields = plan.fields
    this.body = plan.body
    this.hasTrailers = plan.hasTrailers
  }

  /** Handles a frame of the server. Returns what is wrong with it, or ''. */
  onFrame(type: number, flags: number, payload: Buffer): string {
    if (type === FrameType.RstStream) {
      this.isOver = true
      const code = payload.readUInt32BE() // a deadline can pass while the response waits for this peer's windows
      return code === ErrorCode.Cancel && this.plan.statuses.includes(Status.DeadlineExceeded)
        ? ''
        : `RST ${code}`
    }
    const isEnd = (flags & Flag.EndStream) !== 0
    if (type === FrameType.Data) {
      this.receiveWindow -= payload.length
      this.received.push(Buffer.from(payload))
      if (!this.hasHeaders) return 'DATA before HEADERS'
      if (isEnd) return this.checkEnd()
      return this.receiveWindow < 0 && payload.length > 0 ? 'more DATA than the window' : ''
    }
    if (type !== FrameType.Headers) return `a frame of type ${type}`
    if (!isEnd) {
      if (this.hasHeaders) return 'two HEADERS'
      this.hasHeaders = true
      return ''
    }
    this.isOver = true
    return this.checkTrailers(payload.toString('latin1'))
  }

  private checkEnd(): string {
    this.isOver = true
    return this.plan.statuses.length > 0 ? 'an end without a status' : ''
  }

  toString(): string {
    const { id, isSent, sent, body, plan } = this
    return `call ${id}, ${plan.fields[2][1]}, ${sent} of ${body.length} bytes sent${isSent ? ', all' : ''}, expects ${plan.statuses}`
  }

  private checkTrailers(trailers: string): string {
    const { statuses, bytes } = this.plan
    const status = Number(/grpc-status.(\d+)/s.exec(trailers)?.[1] ?? -1)
    if (!statuses.includes(status)) return `status ${status}`
    const received = Buffer.concat(this.received)
    if (status !== Status.Ok) return received.length > 0 ? 'a refusal with a message' : ''
    return received.equals(bytes) ? '' : `another response, ${received.length} bytes for ${bytes.length}`
  }
}
