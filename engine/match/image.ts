/**
 * Layout of the compiled rules in shared memory: written once by compile.ts, then read by all threads.
 *
 *     header   HEADER ints: magic number, start and size of each section
 *     slots    hash, node                     open addressing over (parent, text); node 0 = free, where a miss ends
 *     nodes    8 ints, parents before children, children in load order
 *                node 0 is the root; its children are the domains, whose children are the top level descriptors
 *     wilds    node, start, size, prefix size   the wildcard children of one parent are adjacent, in load order
 *     rules    10 ints, in the order of their nodes
 *     origins  key size, line, file             one per node, where it was configured; for diagnostics only
 *     pool     UTF-8; equal texts are stored once
 *
 *     domain shop: user=7 5/min > path=/a*           slots                  nodes                       rules
 *                                                    ├ (0, shop)   ───►  1  parent 0  shop
 *     looked up: (1, `user_7`), then wilds of 1,     ├ (1, user_7) ───►  2  parent 1  user_7   rule 0 ──► 5 MINUTE
 *     then (1, `user`); no backtracking            └ (2, path_/a*) ─►  3  parent 2  path_/a*
 *
 * Slots hold the hash beside the node, so a miss reads one cache line and no text. 100,000 rules: 11 to 15 MB.
 */

export const MAGIC = 0x51c0_0003 | 0 // layout 3

/** Header ints. `*_AT` in ints from the start, POOL_AT in bytes. */
export const HEADER = 16
export const H_MAGIC = 0
export const H_SLOTS_AT = 1
export const H_SLOTS_COUNT = 2 // a power of two, at least twice the nodes
export const H_NODES_AT = 3
export const H_NODES_COUNT = 4
export const H_WILDCARDS_AT = 5
export const H_WILDCARDS_COUNT = 6
export const H_RULES_AT = 7
export const H_RULES_COUNT = 8
export const H_POOL_AT = 9
export const H_POOL_SIZE = 10
export const H_DEPTH_MAX = 11 // levels of the deepest descriptor
export const H_ORIGINS_AT = 12

export const SLOT = 2
export const SLOT_HASH = 0
export const SLOT_NODE = 1

export const NODE = 8
export const NODE_PARENT = 0
export const NODE_START = 1 // of the composite text in the pool; for a domain its name
export const NODE_SIZE = 2
export const NODE_WILDCARDS = 3 // the first of its wildcard children in wilds
export const NODE_WILDCARDS_COUNT = 4
export const NODE_RULE = 5 // -1 = no limit
export const NODE_FLAGS = 6
export const NODE_DEPTH = 7 // 0 for a domain

export const HAS_CHILDREN = 1
export const HAS_SHARE_THRESHOLD = 2
export const HAS_VALUE_TO_METRIC = 4
export const HAS_DETAILED_METRIC = 8

export const WILDCARD = 4
export const WILDCARD_NODE = 0
export const WILDCARD_START = 1
export const WILDCARD_SIZE = 2
export const WILDCARD_PREFIX = 3 // bytes before the first star

export const RULE = 10
export const RULE_NODE = 0
export const RULE_REQUESTS = 1 // uint32 in the bits of an int: read with `>>> 0`
export const RULE_UNIT = 2
export const RULE_FLAGS = 3
export const RULE_NAME = 4 // start and size in the pool; size 0 = none. So are the next two, both JSON
export const RULE_REPLACES = 6
export const RULE_METADATA = 8

export const ORIGIN = 4
export const ORIGIN_KEY_SIZE = 0 // bytes of the composite text that are the key; then comes `_` and the value, if there is one
export const ORIGIN_LINE = 1 // 0 = the source has no lines
export const ORIGIN_FILE = 2 // start and size in the pool

export const IS_UNLIMITED = 1
export const IS_SHADOW = 2
export const IS_QUOTA = 4
export const POLICY_SHIFT = 3 // three bits: 0 = not set, else 1 + index into STORE_ERROR_POLICIES
export const POLICY_MASK = 7
export const LOCAL_SHARE_SHIFT = 8 // seven bits: percent, 0 = not set
export const LOCAL_SHARE_MASK = 127

export const STAR = 0x2a
export const UNDERSCORE = 0x5f

/** Hash of a text so far; start with HASH_START and add byte by byte (FNV-1a), so a prefix's hash comes for free. */
export const HASH_START = 0x811c_9dc5 | 0

export function hashByte(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, 0x0100_0193)
}

/** The hash of a text below a parent: mixed well, because slots are chosen by the low bits. */
export function hashBelow(parent: number, hash: number): number {
  let mixed = hash ^ Math.imul(parent, 0x9e37_79b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85eb_ca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35)
  return mixed ^ (mixed >>> 16)
}
