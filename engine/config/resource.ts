/**
 * Reads an xDS resource as a draft (spec 8.6): `ratelimit.config.ratelimit.v3.RateLimitConfig` in protobuf bytes.
 *
 *     Any ── is it a RateLimitConfig? ── name, domain, descriptors ──► RuleDraft, validated like a file
 *
 * A unit becomes its name in rule files, which error texts show. value_to_metric and share_threshold are never set: the
 * protocol has no fields for them. As usual in protobuf, the last value of a repeated field counts, messages are merged, and
 * unknown fields are skipped.
 */
import protobuf from 'protobufjs/minimal.js'
import type { Resource } from '../../proto/discovery.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'
import { readStruct } from '../../proto/struct.ts'
import {
  enter,
  FIELD_1_LENGTH,
  FIELD_1_VARINT,
  FIELD_2_LENGTH,
  FIELD_2_VARINT,
  FIELD_3_LENGTH,
  FIELD_3_VARINT,
  FIELD_4_LENGTH,
  LENGTH,
  skip,
  VARINT,
} from '../../proto/wire.ts'
import { DESCRIPTOR_DEPTH_MAX, DESCRIPTORS_MAX } from './bounds.ts'
import { emptyNode, type LimitDraft, type NodeDraft, type RuleDraft } from './draft.ts'

type Reader = protobuf.Reader

const MESSAGE = 'ratelimit.config.ratelimit.v3.RateLimitConfig'

// Of a RateLimitDescriptor; `number << 3 | type`.
const KEY = FIELD_1_LENGTH
const VALUE = FIELD_2_LENGTH
const RATE_LIMIT = FIELD_3_LENGTH
const DESCRIPTORS = FIELD_4_LENGTH
const SHADOW_MODE = (5 << 3) | VARINT
const DETAILED_METRIC = (6 << 3) | VARINT
const QUOTA_MODE = (7 << 3) | VARINT
const METADATA = (8 << 3) | LENGTH

// Of a RateLimitPolicy.
const UNIT = FIELD_1_VARINT
const REQUESTS_PER_UNIT = FIELD_2_VARINT
const UNLIMITED = FIELD_3_VARINT
const NAME = FIELD_4_LENGTH
const REPLACES = (5 << 3) | LENGTH

/** Of all resources of a response. */
export interface Count {
  descriptors: number
}

/** Position in the tree. Both bounds are checked while reading, before a hostile resource becomes a large tree. */
interface Level {
  depth: number
  count: Count
}

/** Throws when it cannot be decoded. */
export function readResource({ typeUrl, value }: Resource, count: Count): RuleDraft {
  const found = typeUrl.slice(typeUrl.lastIndexOf('/') + 1)
  if (found !== MESSAGE) throw new Error(`mismatched message type: got "${found}", want "${MESSAGE}"`)
  const reader = new protobuf.Reader(value)
  const draft: RuleDraft = { file: '', domain: '', nodes: [] }
  const level = { depth: 1, count }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) draft.file = reader.stringVerify()
    else if (tag === FIELD_2_LENGTH) draft.domain = reader.stringVerify()
    else if (tag === FIELD_3_LENGTH) draft.nodes.push(readDescriptor(reader, level))
    else skip(reader, tag)
  }
  return draft
}

function readDescriptor(reader: Reader, level: Level): NodeDraft {
  if (level.depth > DESCRIPTOR_DEPTH_MAX)
    throw new RangeError(`descriptors are nested more than ${DESCRIPTOR_DEPTH_MAX} deep`)
  if (++level.count.descriptors > DESCRIPTORS_MAX)
    throw new RangeError(`more than ${DESCRIPTORS_MAX} descriptors`)
  const node = emptyNode(0)
  const below = { ...level, depth: level.depth + 1 }
  const outerEnd = enter(reader)
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === KEY) node.key = reader.stringVerify()
    else if (tag === VALUE) node.value = reader.stringVerify()
    else if (tag === RATE_LIMIT) node.limit = readPolicy(reader, node.limit)
    else if (tag === DESCRIPTORS) node.nodes.push(readDescriptor(reader, below))
    else if (tag === SHADOW_MODE) node.isShadow = reader.bool()
    else if (tag === DETAILED_METRIC) node.hasDetailedMetric = reader.bool()
    else if (tag === QUOTA_MODE) node.isQuota = reader.bool()
    else if (tag === METADATA) node.metadata = readMetadata(reader, node.metadata)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return node
}

function readPolicy(reader: Reader, earlier: LimitDraft | null): LimitDraft {
  const limit = earlier ?? {
    unit: UNIT_NAMES[0],
    requestsPerUnit: 0,
    isUnlimited: false,
    name: '',
    replaces: [],
  }
  const outerEnd = enter(reader)
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === UNIT) limit.unit = unitText(reader.int32())
    else if (tag === REQUESTS_PER_UNIT) limit.requestsPerUnit = reader.uint32()
    else if (tag === UNLIMITED) limit.isUnlimited = reader.bool()
    else if (tag === NAME) limit.name = reader.stringVerify()
    else if (tag === REPLACES) limit.replaces.push(readReplace(reader))
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return limit
}

/** A number without a name stays a number; validate.ts reports that it is not a unit. */
function unitText(unit: number): string {
  return UNIT_NAMES[unit] ?? String(unit)
}

function readReplace(reader: Reader): string {
  const outerEnd = enter(reader)
  let name = ''
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) name = reader.stringVerify()
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return name
}

/** An empty Struct counts as absent (spec 1.4). */
function readMetadata(reader: Reader, earlier: NodeDraft['metadata']): NodeDraft['metadata'] {
  const struct = readStruct(reader, (earlier ?? {}) as Parameters<typeof readStruct>[1])
  return Object.keys(struct).length > 0 ? struct : null
}
