/**
 * The services of the fuzzed frontend. A message's first byte selects the response, so a peer knows what to expect, and
 * whether a response belongs to that message.
 */
import type {
  StreamCall,
  StreamHandler,
  StreamMethod,
  UnaryCall,
  UnaryMethod,
} from '../../transports/grpc/frontend.ts'
import { Status } from '../../transports/grpc/status.ts'

export const UNARY_PATH = '/fuzz.Service/Unary'
export const STREAM_PATH = '/fuzz.Service/Stream'
export const Mode = { Now: 0, Later: 1, RefuseNow: 2, RefuseLater: 3, Large: 4 } as const
const MODES = 5
const REPEATS = 40

export interface ExpectedResponse {
  status: Status
  bytes: Buffer // '' unless OK
}

/** The response to a valid message. */
export function getResponse(message: Uint8Array): ExpectedResponse {
  const mode = message.length === 0 ? Mode.Now : message[0] % MODES
  if (mode === Mode.RefuseNow || mode === Mode.RefuseLater) {
    return { status: Status.PermissionDenied, bytes: Buffer.alloc(0) }
  }
  const once = Buffer.from(message)
  for (let i = 0; i < once.length; i++) once[i] ^= 0x5a
  const bytes = mode === Mode.Large ? Buffer.concat(Array.from({ length: REPEATS }, () => once)) : once
  return { status: Status.Ok, bytes }
}

export class FuzzServices {
  callsCount = 0
  streamsCount = 0 // open
  private readonly waiting: (() => void)[] = []
  readonly unary: UnaryMethod = { path: UNARY_PATH, handle: (message, call) => this.handle(message, call) }
  readonly stream: StreamMethod = { path: STREAM_PATH, open: (call) => this.open(call) }

  /** Responds to this share of the waiting calls. */
  release(share: number, random: () => number): void {
    for (const respond of this.waiting.splice(0)) {
      if (random() < share) respond()
      else this.waiting.push(respond)
    }
  }

  private handle(message: Uint8Array, call: UnaryCall): void {
    this.callsCount++
    const mode = message.length === 0 ? Mode.Now : message[0] % MODES
    const { status, bytes } = getResponse(message)
    const respond = () => (status === Status.Ok ? call.reply(bytes) : call.refuse(status, 'no'))
    if (mode === Mode.Later || mode === Mode.RefuseLater) this.waiting.push(respond)
    else respond()
  }

  private open(call: StreamCall): StreamHandler {
    this.streamsCount++
    const toSend: Buffer[] = []
    let canSend = true
    let isEnding = false
    const sendAll = () => {
      while (canSend && toSend.length > 0) canSend = call.send(toSend.shift()!)
      if (isEnding && toSend.length === 0) call.end()
    }
    return {
      message: (message) => {
        toSend.push(getResponse(message).bytes)
        sendAll()
      },
      halfClosed: () => {
        isEnding = true
        sendAll()
      },
      writable: () => {
        canSend = true
        sendAll()
      },
      closed: () => {
        this.streamsCount--
      },
    }
  }
}
