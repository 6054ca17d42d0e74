/** Headers (spec 4.8) and dynamic metadata (spec 5.8) of a response. Both are off by default. */
import {
  Code,
  type Descriptor,
  type DescriptorStatus,
  type HeaderValue,
  type JsonObject,
  type JsonValue,
  type RateLimitRequest,
  UNIT_NAMES,
} from '../../proto/ratelimit.ts'
import type { Rule, StoreErrorPolicy } from '../config/rules.ts'

/** The largest value of limit_remaining, sent for unlimited rules. */
export const REMAINING_MAX = 4_294_967_295

/** Its value is the policy that answered; of several the one that admits least. */
export const DEGRADED_HEADER = 'x-ratelimit-degraded'

export interface HeaderNames {
  limit: string
  remaining: string
  reset: string
}

/** Headers of the descriptor with the least remaining; the last rate limit that is over takes precedence. */
export function responseHeaders(
  statuses: readonly DescriptorStatus[],
  isQuota: readonly boolean[],
  names: HeaderNames,
): HeaderValue[] {
  let selected: DescriptorStatus | null = null
  let smallest = REMAINING_MAX
  for (let i = 0; i < statuses.length; i++) {
    const status = statuses[i]
    if (status.currentLimit === null) continue
    if (status.code === Code.OverLimit && !isQuota[i]) {
      selected = status
      smallest = 0
    } else if (status.limitRemaining < smallest) {
      selected = status
      smallest = status.limitRemaining
    }
  }
  if (selected?.currentLimit == null) return []
  return [
    { key: names.limit, value: String(selected.currentLimit.requestsPerUnit) },
    { key: names.remaining, value: String(selected.limitRemaining) },
    { key: names.reset, value: String(selected.resetSec) },
  ]
}

/** The request's fields, and the merged metadata of the rules that passed. */
export function dynamicMetadata(
  request: RateLimitRequest,
  descriptors: readonly { rule: Rule | null }[],
  statuses: readonly DescriptorStatus[],
): JsonObject {
  const metadata: JsonObject = {
    domain: request.domain,
    descriptors: request.descriptors.map(descriptorMetadata),
  }
  if (request.hitsAddend !== 0) metadata.hitsAddend = request.hitsAddend
  const merged: JsonObject = {}
  for (let i = 0; i < descriptors.length; i++) {
    const { rule } = descriptors[i]
    if (rule?.metadata == null || rule.isUnlimited || statuses[i].code === Code.OverLimit) continue
    mergeInto(merged, rule.metadata)
  }
  if (Object.keys(merged).length > 0) metadata.metadata = merged
  return metadata
}

/** Adds `degraded` to the metadata, and to each descriptor that a policy answered. */
export function addDegradedMetadata(
  metadata: JsonObject,
  policy: StoreErrorPolicy,
  policies: readonly (StoreErrorPolicy | null)[],
): void {
  metadata.degraded = policy
  const descriptors = metadata.descriptors as JsonObject[]
  for (let i = 0; i < policies.length; i++) if (policies[i] !== null) descriptors[i].degraded = policies[i]
}

function descriptorMetadata({ entries, limit, hitsAddend }: Descriptor): JsonObject {
  const metadata: JsonObject = { entries: entries.map(({ key, value }) => `${key}=${value}`) }
  if (limit !== null) {
    const fields: string[] = [] // protobuf's text form, where zero is not written
    if (limit.requestsPerUnit !== 0) fields.push(`requests_per_unit:${limit.requestsPerUnit}`)
    if (limit.unit !== 0) fields.push(`unit:${UNIT_NAMES[limit.unit] ?? limit.unit}`)
    metadata.limit = fields.join(' ')
  }
  if (hitsAddend !== null) metadata.hitsAddend = Number(hitsAddend)
  return metadata
}

/** The first value of a key stays, except that structs are merged. Values are copied, because rules are shared (Q22). */
function mergeInto(target: JsonObject, source: JsonObject): void {
  for (const [key, value] of Object.entries(source)) {
    const earlier = Object.hasOwn(target, key) ? target[key] : undefined
    if (earlier === undefined) setOwn(target, key, structuredClone(value))
    else if (isObject(earlier) && isObject(value)) mergeInto(earlier, value)
  }
}

/** `target[key] = value`, also for the key `__proto__`. */
function setOwn(target: JsonObject, key: string, value: JsonValue): void {
  Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true })
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
