/**
 * Protobuf codec of the two messages of an xDS stream (spec 8.6).
 *
 *     request     version 1 · node 2 · type 4 · nonce 5 · error 6      encoded
 *     response    version 1 · resources 2 · nonce 5                    decoded in two steps:
 *                    │            └── responseResources, in the job
 *                    └── responseHead, in main, which skips the resources
 */
import protobuf from 'protobufjs/minimal.js'
import type { JsonObject } from './ratelimit.ts'
import { writeStruct } from './struct.ts'
import {
  enter,
  FIELD_1_LENGTH,
  FIELD_2_LENGTH,
  FIELD_3_LENGTH,
  FIELD_4_LENGTH,
  FIELD_6_LENGTH,
  LENGTH,
  skip,
} from './wire.ts'

const FIELD_5_LENGTH = (5 << 3) | LENGTH

export interface DiscoveryNode {
  id: string
  metadata: JsonObject
}

export interface DiscoveryRequest {
  version: string // of the response in force; '' = none
  node: DiscoveryNode
  typeUrl: string
  nonce: string // of the response that this acknowledges; '' = none
  error: string | null // why that response was refused; null = it was not
}

export interface ResponseHead {
  version: string
  nonce: string
}

/** A google.protobuf.Any. */
export interface Resource {
  typeUrl: string
  value: Uint8Array // a view of the response's bytes
}

export function encodeDiscoveryRequest(request: DiscoveryRequest): Uint8Array {
  const { version, node, typeUrl, nonce, error } = request
  const writer = protobuf.Writer.create()
  if (version !== '') writer.uint32(FIELD_1_LENGTH).string(version)
  writer.uint32(FIELD_2_LENGTH).fork()
  if (node.id !== '') writer.uint32(FIELD_1_LENGTH).string(node.id)
  writeStruct(writer.uint32(FIELD_3_LENGTH).fork(), node.metadata).ldelim().ldelim() // present even when empty
  writer.uint32(FIELD_4_LENGTH).string(typeUrl)
  if (nonce !== '') writer.uint32(FIELD_5_LENGTH).string(nonce)
  if (error !== null) {
    writer.uint32(FIELD_6_LENGTH).fork().uint32(FIELD_2_LENGTH).string(error.toWellFormed()).ldelim()
  }
  return writer.finish()
}

/** Throws if the bytes are not a response. Resources are not decoded. */
export function responseHead(bytes: Uint8Array): ResponseHead {
  const reader = new protobuf.Reader(bytes)
  const head = { version: '', nonce: '' }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) head.version = reader.stringVerify()
    else if (tag === FIELD_5_LENGTH) head.nonce = reader.stringVerify()
    else skip(reader, tag)
  }
  return head
}

/** The resources of a response that `responseHead` has read, in order. Throws if one is not an Any. */
export function* responseResources(bytes: Uint8Array): Iterable<Resource> {
  const reader = new protobuf.Reader(bytes)
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_2_LENGTH) yield readAny(reader)
    else skip(reader, tag)
  }
}

function readAny(reader: protobuf.Reader): Resource {
  const outerEnd = enter(reader)
  let typeUrl = ''
  let value = new Uint8Array()
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) typeUrl = reader.stringVerify()
    else if (tag === FIELD_2_LENGTH) value = reader.bytes() as Uint8Array<ArrayBuffer>
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return { typeUrl, value }
}
