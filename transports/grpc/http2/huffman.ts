/**
 * The Huffman code of HPACK (RFC 7541, appendix B), four bits per step.
 *
 *     code tree        state 0 ─┬ 0000 ─► inner node, a state ─┬ 0... ─► '0', and on from the root with the other bits
 *     (257 leaves)              ├ 0001 ─► ...                  └ ...
 *                               └ 1111 ─► ...
 *
 * Each of the 256 inner nodes is a state with 16 entries: the next state, and the symbol that was completed, at most
 * one since no code is shorter than 5 bits. The code is canonical: the lengths alone give all codes.
 */

// biome-ignore format: 16 symbols a line
const LENGTHS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30, // 256, end of string: must not occur (5.2)
]
const END = 256
const PADDING_BITS_MAX = 7

// An entry of TABLE: next state in bits 0 to 7, symbol in 8 to 15, and:
const EMITS = 1 << 16
const FAILS = 1 << 17

interface Tree {
  zero: number[] // inner node: child for bit 0 and bit 1; >= 0 an inner node, < 0 leaf of symbol -1 - child
  one: number[]
}

const tree = buildTree()
const TABLE = buildTable(tree)
const MAY_END = buildMayEnd(tree) // states that only padding leads to: up to seven 1 bits

/** Decodes `bytes[from, to)` into `into`. Returns the count of bytes, or -1 when the code is invalid. */
export function unpackHuffman(bytes: Uint8Array, from: number, to: number, into: Uint8Array): number {
  let state = 0
  let count = 0
  for (let i = from; i < to; i++) {
    const byte = bytes[i]
    let entry = TABLE[(state << 4) | (byte >> 4)]
    if (entry & EMITS) into[count++] = entry >> 8
    let failed = entry
    entry = TABLE[((entry & 0xff) << 4) | (byte & 15)]
    if (entry & EMITS) into[count++] = entry >> 8
    failed |= entry
    if (failed & FAILS) return -1
    state = entry & 0xff
  }
  return MAY_END[state] === 1 ? count : -1
}

/** Upper bound of the decoded size of so many bytes. */
export function unpackedBytesMax(packed: number): number {
  return Math.ceil((packed * 8) / 5)
}

function buildTree(): Tree {
  const tree: Tree = { zero: [0], one: [0] } // 0 = none yet: the root is no node's child
  const symbols = LENGTHS.map((_length, symbol) => symbol)
  symbols.sort((a, b) => LENGTHS[a] - LENGTHS[b] || a - b)
  let code = 0
  let length = 0
  for (const symbol of symbols) {
    code *= 2 ** (LENGTHS[symbol] - length)
    length = LENGTHS[symbol]
    let node = 0
    for (let bit = length - 1; bit >= 0; bit--) {
      const children = Math.floor(code / 2 ** bit) % 2 === 1 ? tree.one : tree.zero
      if (bit === 0) children[node] = -1 - symbol
      else if (children[node] === 0) {
        children[node] = tree.zero.push(0) - 1
        tree.one.push(0)
      }
      node = children[node]
    }
    code++
  }
  return tree
}

function buildTable({ zero, one }: Tree): Int32Array {
  const table = new Int32Array(zero.length * 16)
  for (let state = 0; state < zero.length; state++) {
    for (let nibble = 0; nibble < 16; nibble++) {
      let node = state
      let flags = 0
      for (let bit = 3; bit >= 0; bit--) {
        node = (nibble >> bit) & 1 ? one[node] : zero[node]
        if (node >= 0) continue
        const symbol = -1 - node
        flags = symbol === END ? FAILS : EMITS | (symbol << 8)
        node = 0
      }
      table[(state << 4) | nibble] = flags | node
    }
  }
  return table
}

function buildMayEnd({ zero, one }: Tree): Uint8Array {
  const mayEnd = new Uint8Array(zero.length)
  let node = 0
  for (let bits = 0; bits <= PADDING_BITS_MAX; bits++) {
    mayEnd[node] = 1
    node = one[node]
  }
  return mayEnd
}
