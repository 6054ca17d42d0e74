/**
 * What does it cost to read a request of two descriptors, as JSON and as protobuf, and to write its response?
 *   floor  JSON: JSON.parse of the same bytes, nothing checked. protobuf: the same tags and strings, no objects made
 *   now    the codec, from the bytes of a body to a RateLimitRequest
 *   pieces only creating the seven strings, offsets known: slices of one text, or each from the bytes. The text is so much
 *          cheaper that JSON is read from it
 * Worth changing when `now` of JSON is above 1.3 times its floor, the cost of checking JSON.parse's objects, or
 * that of protobuf above 1.5 times its own.
 */
import protobuf from 'protobufjs/minimal.js'
import { decodeRequest, encodeRequest } from '../proto/codec.ts'
import { requestFromJson } from '../proto/json.ts'
import { responseToJson } from '../proto/json-response.ts'
import type { RateLimitRequest, RateLimitResponse } from '../proto/ratelimit.ts'
import { encodeResponse } from '../proto/response-bytes.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const BODIES = 64 // different ones, so that no cache helps
const rounds = size({ small: 20, full: 2_000 })
const operations = BODIES * rounds

const random = seeded(7)
const requests = Array.from({ length: BODIES }, request)
const texts = requests.map((each) => Buffer.from(JSON.stringify({ ...each, hitsAddend: undefined })))
const messages = requests.map((each) => encodeRequest(each))
const places = texts.map(findStrings)
const response = createResponse()

/** Reads each body `rounds` times and returns the sum of the results. */
function each(read: (i: number) => number): () => number {
  return () => {
    let sum = 0
    for (let round = 0; round < rounds; round++) for (let i = 0; i < BODIES; i++) sum += read(i)
    return sum
  }
}

await measure('json', operations, {
  'floor  JSON.parse': each((i) => JSON.parse(texts[i].toString()).descriptors.length),
  'now    requestFromJson': each((i) => requestFromJson(texts[i].toString()).descriptors.length),
  'pieces of the text': each((i) => {
    const text = texts[i].toString()
    let length = 0
    for (const [start, end] of places[i]) length += text.slice(start, end).length
    return length
  }),
  'pieces of the bytes': each((i) => {
    let length = 0
    for (const [start, end] of places[i]) length += texts[i].toString('latin1', start, end).length
    return length
  }),
  'write  responseToJson': each(() => responseToJson(response).length),
})
await measure('proto', operations, {
  'floor  tags and strings': each((i) => walk(new protobuf.Reader(messages[i]), 0)),
  'now    decodeRequest': each((i) => decodeRequest(messages[i]).descriptors.length),
  'write  encodeResponse': each(() => encodeResponse(response).length),
})

function request(): RateLimitRequest {
  const hex = () => random().toString(16).slice(2, 14)
  const entry = (key: string, value: string) => ({ key, value })
  const user = [entry('user', `${hex()}-${hex()}`), entry('path', '/api/v1/items')]
  const address = [entry('remote_address', `203.0.113.${Math.floor(random() * 256)}`)]
  const descriptors = [user, address].map((entries) => ({ entries, limit: null, hitsAddend: null }))
  return { domain: 'shop', descriptors, hitsAddend: 0 }
}

function createResponse(): RateLimitResponse {
  const currentLimit = { name: '', requestsPerUnit: 100, unit: 2 } as const
  const status = { code: 1, currentLimit, limitRemaining: 42, resetSec: 37 } as const
  return { overallCode: 1, statuses: [status, status], responseHeadersToAdd: [], dynamicMetadata: null }
}

/** Start and end of each string. */
function findStrings(text: Buffer): [number, number][] {
  const found = text.toString().matchAll(/"(?:domain|key|value)":"([^"]*)"/dg)
  return Array.from(found, ({ indices }) => indices![1]!)
}

/** Reads every tag, length and string of a request; `level` 2 is an entry. */
function walk(reader: protobuf.Reader, level: number): number {
  let sum = 0
  const outerEnd = reader.len
  if (level > 0) reader.len = reader.size() + reader.pos
  while (reader.pos < reader.len) {
    const field = reader.tag() >>> 3
    const isText = level === 2 || (level === 0 && field === 1)
    sum += isText ? reader.stringVerify().length : walk(reader, level + 1)
  }
  reader.len = outerEnd
  return sum
}
