/**
 * ShouldRateLimit with valid, nearly valid and random messages, against the whole service: every call ends with a specified
 * status, and the right one for its message.
 */
import { expect, test } from 'vitest'
import { decodeRequest, decodeResponse } from '../../proto/codec.ts'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { Status } from '../../transports/grpc/status.ts'
import { seed, seeded, size } from '../helpers/size.ts'
import { expectUnharmed, startFuzzed } from './fuzzed-service.ts'
import { type CallEnd, call, openSession } from './grpc-calls.ts'
import { mutated, randomMessage } from './protobuf-bodies.ts'

const CONNECTIONS = 4
const CALLS_AT_ONCE = 32 // on one connection
const messages = size({ small: 5_000, full: 1_000_000 })

const NO_REQUEST = /^the request is not a valid RateLimitRequest: ./
const REFUSED = /^(rate limit (domain|descriptor list|override)|hits_addend must not) /

test(`5.2, 5.4: ${messages} messages for ShouldRateLimit (seed ${seed()})`, async () => {
  const service = await startFuzzed()
  const random = seeded(seed())
  const counts: Record<number, number> = { [Status.Ok]: 0, [Status.Unknown]: 0, [Status.Internal]: 0 }
  const sessions = Array.from({ length: CONNECTIONS }, () => openSession(service.address('gRPC')))
  let leftCount = messages
  const sendCalls = async (client: number) => {
    while (leftCount > 0) {
      leftCount--
      const valid = randomMessage(random)
      const message = random() < 0.5 ? valid : mutated(valid, random)
      const end = await call(sessions[client % CONNECTIONS], SHOULD_RATE_LIMIT, message)
      check(message, end)
      counts[end.code]++
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS * CALLS_AT_ONCE }, (_, i) => sendCalls(i)))
  for (const session of sessions) session.close()
  expect(Object.values(counts).reduce((sum, count) => sum + count)).toBe(messages)
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(messages / 20)
  await expectUnharmed(service)
})

function check(message: Uint8Array, end: CallEnd): void {
  if (isSpecified(parse(message), end)) return
  const response = end.response.toString('hex')
  throw new Error(`${end.code} ${end.details} ${response}\nto ${Buffer.from(message).toString('hex')}`)
}

/** Without `expect`, which takes minutes for a million messages. */
function isSpecified(request: RateLimitRequest | null, { code, details, response }: CallEnd): boolean {
  if (request === null) return code === Status.Internal && NO_REQUEST.test(details)
  if (code !== Status.Ok) return code === Status.Unknown && REFUSED.test(details)
  const { overallCode, statuses, dynamicMetadata } = decodeResponse(response)
  const isDecided = overallCode === 1 || overallCode === 2
  return (
    isDecided && statuses.length === request.descriptors.length && dynamicMetadata?.domain === request.domain
  )
}

/** null = not a valid request. */
function parse(message: Uint8Array): RateLimitRequest | null {
  try {
    return decodeRequest(message)
  } catch {
    return null
  }
}
