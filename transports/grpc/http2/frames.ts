/**
 * The frames of HTTP/2 (RFC 9113, section 4): names, numbers, SETTINGS payloads and the two kinds of errors.
 *
 *     byte 0       3      4       5                9
 *          | length | type | flags | stream id (31) | payload: `length` bytes
 *
 * A stream error ends one call, by RST_STREAM. A connection error ends the connection, by GOAWAY; it is thrown, since
 * nothing after it can be read.
 */

/** Sent by every client before its SETTINGS. */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

export const FRAME_HEADER_BYTES = 9
/** Maximum payload in both directions: the protocol's default, which every peer accepts. No other is announced. */
export const FRAME_BYTES_MAX = 16_384
export const WINDOW_MAX = 2 ** 31 - 1
export const WINDOW_DEFAULT = 65_535
export const STREAM_ID_MAX = 2 ** 31 - 1

export const FrameType = {
  Data: 0,
  Headers: 1,
  Priority: 2,
  RstStream: 3,
  Settings: 4,
  PushPromise: 5,
  Ping: 6,
  Goaway: 7,
  WindowUpdate: 8,
  Continuation: 9,
} as const

export const Flag = { Ack: 1, EndStream: 1, EndHeaders: 4, Padded: 8, Priority: 32 } as const

export const Setting = {
  HeaderTableSize: 1,
  EnablePush: 2,
  MaxConcurrentStreams: 3,
  InitialWindowSize: 4,
  MaxFrameSize: 5,
  MaxHeaderListSize: 6,
} as const

export const ErrorCode = {
  NoError: 0,
  ProtocolError: 1,
  InternalError: 2,
  FlowControlError: 3, // FLOW_CONTROL_ERROR, and so on for the others: the names of RFC 9113, section 7
  SettingsTimeout: 4,
  StreamClosed: 5,
  FrameSizeError: 6,
  RefusedStream: 7,
  Cancel: 8,
  CompressionError: 9,
  ConnectError: 10,
  EnhanceYourCalm: 11,
} as const
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode]

/** Ends a connection. The text is the debug data of the GOAWAY. */
export class ConnectionError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, text: string) {
    super(text)
    this.code = code
  }
}

export function throwConnectionError(code: ErrorCode, text: string): never {
  throw new ConnectionError(code, text)
}

// ---- the payload of SETTINGS (RFC 9113, 6.5): pairs of an identifier (16 bits) and a value (32 bits)

const PAIR_BYTES = 6
const FRAME_BYTES_LIMIT = 2 ** 24 - 1

/** The settings of the peer that this server heeds; `streamWindow` -1: absent. Throws a ConnectionError. */
export function readSettings(bytes: Buffer, from: number, to: number) {
  if ((to - from) % PAIR_BYTES !== 0)
    throwConnectionError(ErrorCode.FrameSizeError, 'the SETTINGS length is not a multiple of 6')
  let streamWindow = -1
  let hasTableSize = false
  for (let at = from; at < to; at += PAIR_BYTES) {
    const id = bytes.readUInt16BE(at)
    const value = bytes.readUInt32BE(at + 2)
    if (id === Setting.HeaderTableSize) hasTableSize = true
    else if (id === Setting.InitialWindowSize) {
      if (value > WINDOW_MAX) throwConnectionError(ErrorCode.FlowControlError, 'the window exceeds 2^31-1')
      streamWindow = value
    } else if (id === Setting.EnablePush && value > 1)
      throwConnectionError(ErrorCode.ProtocolError, 'ENABLE_PUSH is 0 or 1')
    else if (id === Setting.MaxFrameSize && (value < FRAME_BYTES_MAX || value > FRAME_BYTES_LIMIT)) {
      throwConnectionError(ErrorCode.ProtocolError, 'MAX_FRAME_SIZE is out of range') // otherwise ignored: frames sent are never larger than the minimum
    }
  }
  return { streamWindow, hasTableSize }
}

export function settingsPayload(settings: Record<number, number>): Buffer {
  const pairs = Object.entries(settings)
  const payload = Buffer.alloc(pairs.length * PAIR_BYTES)
  pairs.forEach(([id, value], i) => {
    payload.writeUInt16BE(Number(id), i * PAIR_BYTES)
    payload.writeUInt32BE(value, i * PAIR_BYTES + 2)
  })
  return payload
}
