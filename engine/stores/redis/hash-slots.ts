/**
 * Redis Cluster hash slots: the slot of a key, and the owners of slots.
 *
 *     shop_user_alice_0        ─► CRC16 of the whole key          % 16384 ─► slot
 *     {tenant7}shop_user_bob_0 ─► CRC16 of the hash tag, in {}    % 16384 ─► slot, the same for every key with this tag
 */
export const HASH_SLOTS = 16_384 // a power of two

const crcTable = createCrcTable()

/** The slot of a key, 0 to 16383: CRC16 (XMODEM: polynomial 0x1021, start 0) of its UTF-8 bytes or those of its hash tag. */
export function hashSlot(key: string): number {
  const open = key.indexOf('{')
  if (open >= 0) {
    const close = key.indexOf('}', open + 1)
    if (close > open + 1) key = key.slice(open + 1, close)
  }
  let crc = 0
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i)
    if (unit > 0x7f) return crc16(Buffer.from(key)) & (HASH_SLOTS - 1)
    crc = ((crc << 8) & 0xffff) ^ crcTable[(crc >> 8) ^ unit]
  }
  return crc & (HASH_SLOTS - 1)
}

function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ crcTable[(crc >> 8) ^ byte]
  return crc
}

function createCrcTable(): Uint16Array {
  const crcs = new Uint16Array(256)
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
    crcs[byte] = crc
  }
  return crcs
}

export interface SlotRange {
  first: number
  last: number
  host: string
  port: number
}

/** The masters in a reply to CLUSTER SLOTS. A node without a host name is on `host`, which sent the reply. */
export function readClusterSlots(reply: unknown, host: string): SlotRange[] {
  if (!Array.isArray(reply) || reply.length === 0) throw new Error('the cluster has no slots yet')
  return reply.map((range) => {
    const [first, last, [name, port]] = range
    return { first, last, host: name === null || name === '' || name === '?' ? host : String(name), port }
  })
}

/** `MOVED 3999 127.0.0.1:6381`: the host, which may be missing or hold colons, and the port. */
export function readRedirect(message: string, host: string): { host: string; port: number } {
  const [, , address = ''] = message.split(' ')
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, Math.max(colon, 0)) || host, port: Number(address.slice(colon + 1)) }
}
