/**
 * Redis Cluster hash slots: the slot of a key, and the owners of slots.
 *
 *     shop_user_alice_0        ─► CRC16 of the whole key          % 16384 ─► slot
 *     {tenant7}shop_user_bob_0 ─► CRC16 of the hash tag, in {}    % 16384 ─► slot, the same for every key with this tag
 */
import { PORT_MAX } from './address.ts'

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

/** A reply to CLUSTER SLOTS that is not one. */
export class MalformedSlots extends Error {}

/**
 * The masters in a reply to CLUSTER SLOTS. A node without a host name is on `host`, which sent the reply. Throws MalformedSlots unless the
 * ranges are separate parts of all hash slots, each with a usable address.
 */
export function readClusterSlots(reply: unknown, host: string): SlotRange[] {
  if (!Array.isArray(reply) || reply.length === 0) throw new Error('the cluster has no slots yet')
  if (reply.length > HASH_SLOTS) throw malformed(`${reply.length} ranges`)
  const isTaken = new Uint8Array(HASH_SLOTS)
  return reply.map((range) => {
    const [first, last, master] = Array.isArray(range) ? range : []
    const isRange = Number.isInteger(first) && Number.isInteger(last) && first >= 0 && last < HASH_SLOTS
    if (!isRange || first > last) throw malformed(`a range from ${shortText(first)} to ${shortText(last)}`)
    if (isTaken.subarray(first, last + 1).includes(1))
      throw malformed(`slots ${first} to ${last} overlap others`)
    isTaken.fill(1, first, last + 1)
    const [name, port] = Array.isArray(master) ? master : []
    const node = { host: name === null || name === '' || name === '?' ? host : String(name), port }
    if (!isNodeAddress(node)) throw malformed(`a node at ${shortText(name)}, port ${shortText(port)}`)
    return { first, last, ...node }
  })
}

function malformed(what: string): MalformedSlots {
  return new MalformedSlots(`malformed reply to CLUSTER SLOTS: ${what}`)
}

function shortText(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 64) ?? 'nothing'
}

/** `MOVED 3999 127.0.0.1:6381`: the host, which may be missing or hold colons, and the port. Null if the address is invalid. */
export function readRedirect(message: string, host: string): { host: string; port: number } | null {
  const [, , address = ''] = message.split(' ')
  const colon = address.lastIndexOf(':')
  const node = { host: address.slice(0, Math.max(colon, 0)) || host, port: Number(address.slice(colon + 1)) }
  return colon >= 0 && isNodeAddress(node) ? node : null
}

function isNodeAddress({ host, port }: { host: string; port: number }): boolean {
  return /^[\w.:%-]{1,253}$/.test(host) && Number.isInteger(port) && port >= 1 && port <= PORT_MAX
}
