/** Nearly valid frames: one mutation each, as a broken or hostile peer would send. */
import { frame } from '../transports/grpc/http2/frame-bytes.ts'

type Random = () => number

const LENGTHS = [0, 1, 3, 4, 5, 6, 8, 9, 16_384]
const NUMBERS = [0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 65_535, 16_384]

/** The frames to send instead of this one, always whole; random bytes if `isRaw`. */
export function mutated(bytes: Buffer, random: Random, isRaw: boolean): Buffer[] {
  const below = (count: number) => Math.floor(random() * count)
  const type = bytes[3]
  const flags = bytes[4]
  const id = bytes.readUInt32BE(5)
  const payload = Buffer.from(bytes.subarray(9))
  if (isRaw) {
    const noise = Buffer.from(bytes)
    noise[below(noise.length)] = below(256)
    return [random() < 0.5 ? noise : noise.subarray(0, below(noise.length))]
  }
  switch (below(10)) {
    case 0:
      return []
    case 1:
      return [bytes, bytes]
    case 2:
      return [frame(below(11), flags, id, payload)]
    case 3:
      return [frame(type, below(256), id, payload)]
    case 4:
      return [frame(type, flags, random() < 0.5 ? below(100) : id + below(5), payload)]
    case 5:
      return [frame(type, flags, id, payload.subarray(0, below(payload.length + 1)))]
    case 6:
      return [frame(type, flags, id, Buffer.alloc(LENGTHS[below(LENGTHS.length)], below(256)))]
    case 7:
      if (payload.length > 0) payload[below(payload.length)] = below(256)
      return [frame(type, flags, id, payload)]
    case 8:
      if (payload.length >= 4)
        payload.writeUInt32BE(NUMBERS[below(NUMBERS.length)], below(payload.length - 3))
      return [frame(type, flags, id, payload)]
    default:
      return [
        bytes,
        frame(below(11), below(256), below(300), Buffer.alloc(LENGTHS[below(LENGTHS.length)], below(256))),
      ]
  }
}
