/**
 * Request and response as named by the protocol (spec 5.2): codecs decode a RateLimitRequest from protobuf or JSON, the
 * engine creates a RateLimitResponse, codecs encode it.
 *
 *     domain "shop"                                          one status per descriptor, same order
 *       descriptor  user=7  ·  plan=free      ── decide ──►   OK, 5 per minute, 3 remaining, resets in 12 s
 *       descriptor  path=/                                    OK, no limit
 */

/** RateLimitResponse.Code. Numbers are the protocol's. */
export const Code = { Unknown: 0, Ok: 1, OverLimit: 2 } as const
export type Code = (typeof Code)[keyof typeof Code]

/** envoy.type.v3.RateLimitUnit; WEEK was added after YEAR, so the order is not by length. */
export const Unit = { Unknown: 0, Second: 1, Minute: 2, Hour: 3, Day: 4, Month: 5, Year: 6, Week: 7 } as const
export type Unit = (typeof Unit)[keyof typeof Unit]

/** Names by protocol number: `UNIT_NAMES[Unit.Week]` is `WEEK`. */
export const UNIT_NAMES = ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR', 'WEEK'] as const

export interface Entry {
  key: string
  value: string
}

/** A limit sent by the client; it overrides the rules (spec 2.2, step 2). */
export interface LimitOverride {
  requestsPerUnit: number // 0 to 2^32-1
  unit: number // any int32: clients may send unknown numbers
}

export interface Descriptor {
  entries: Entry[]
  limit: LimitOverride | null
  hitsAddend: number | bigint | null // null = absent; 0 = read only; a bigint only above 2^53-1, up to 2^64-1
}

export interface RateLimitRequest {
  domain: string
  descriptors: Descriptor[]
  hitsAddend: number // 0 to 2^32-1; 0 counts as 1
}

export interface RateLimit {
  name: string
  requestsPerUnit: number // 0 to 2^32-1
  unit: Unit
}

export interface DescriptorStatus {
  code: Code
  currentLimit: RateLimit | null
  limitRemaining: number // 0 to 2^32-1
  resetSec: number // 1 to the window's length; 0 = absent, which is so exactly when currentLimit is null
}

export interface HeaderValue {
  key: string
  value: string
}

export interface RateLimitResponse {
  overallCode: Code
  statuses: DescriptorStatus[]
  responseHeadersToAdd: HeaderValue[]
  dynamicMetadata: JsonObject | null // google.protobuf.Struct; null = absent
}

/** What a google.protobuf.Struct can hold. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject
export interface JsonObject {
  [key: string]: JsonValue
}
