/** The size of a WebP picture, from its first bytes: what is stored must be what was asked for. */

const HEAD_BYTES = 30

/** In pixels; null if the bytes are not a WebP file of exactly their length. */
export function readWebpSize(bytes: Buffer): { width: number; height: number } | null {
  if (bytes.length < HEAD_BYTES) return null
  const [riff, webp, kind] = [0, 8, 12].map((at) => bytes.toString('latin1', at, at + 4))
  if (riff !== 'RIFF' || webp !== 'WEBP' || bytes.readUInt32LE(4) + 8 !== bytes.length) return null
  if (kind === 'VP8 ')
    return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
  if (kind === 'VP8X') return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
  if (kind !== 'VP8L') return null
  const bits = bytes.readUInt32LE(21)
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
}
