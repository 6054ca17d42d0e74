/** The payload of SETTINGS (RFC 9113, 6.5): pairs of an id (16) and a value (32), both ways. */
import { ErrorCode, FRAME_BYTES_MAX, Setting, throwConnectionError, WINDOW_MAX } from './frames.ts'

const PAIR_BYTES = 6
const FRAME_BYTES_LIMIT = 2 ** 24 - 1

/** Of what a peer says, the little that changes what we do; -1: it does not say. Throws a ConnectionError. */
export function readSettings(bytes: Buffer, from: number, to: number) {
  if ((to - from) % PAIR_BYTES !== 0)
    throwConnectionError(ErrorCode.FrameSizeError, 'SETTINGS are pairs of 6 bytes')
  let streamWindow = -1
  let hasTableSize = false
  for (let at = from; at < to; at += PAIR_BYTES) {
    const id = bytes.readUInt16BE(at)
    const value = bytes.readUInt32BE(at + 2)
    if (id === Setting.HeaderTableSize) hasTableSize = true
    else if (id === Setting.InitialWindowSize) {
      if (value > WINDOW_MAX) throwConnectionError(ErrorCode.FlowControlError, 'a window too large')
      streamWindow = value
    } else if (id === Setting.EnablePush && value > 1)
      throwConnectionError(ErrorCode.ProtocolError, 'ENABLE_PUSH is 0 or 1')
    else if (id === Setting.MaxFrameSize && (value < FRAME_BYTES_MAX || value > FRAME_BYTES_LIMIT)) {
      throwConnectionError(ErrorCode.ProtocolError, 'no such MAX_FRAME_SIZE') // ours are never larger than the least allowed
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
