/**
 * Deliberate differences, each with its reason. Any other difference is a failure.
 *
 *     request, both responses ──► the first known difference that explains them, or undefined
 *
 * Checked for every request, because equal responses (for example two errors) may leave different counters. After a known
 * difference its lane is set aside for the round.
 */
import type { ReceivedResponse, SentRequest } from './client.ts'
import type { Variant } from './variants.ts'

export interface Known {
  name: string
  reason: string // with the number of spec section 12, or the row of docs/differences.md
  explains(
    sent: SentRequest,
    sluice: ReceivedResponse,
    reference: ReceivedResponse,
    variant: Variant,
  ): boolean
}

const HITS_MAX = 2n ** 63n - 1n

/** Errors with a text of the reference itself; all others come from its Redis client and may differ (spec 5.4). */
const FIXED_ERRORS = [
  'rate limit domain must not be empty',
  'rate limit descriptor list must not be empty',
  'no rate limit configuration loaded',
]

export const KNOWN: Known[] = [
  {
    name: 'hits above 2^63-1',
    reason:
      'Q42: the reference sends them as negative numbers, so a client can refund itself; Sluice returns an error',
    explains: (sent, sluice) =>
      hasHitsAbove(sent, HITS_MAX) && isError(sluice, 'hits_addend must not be above'),
  },
  {
    name: 'a count above 2^63-1',
    reason:
      'the reference fails the call when Redis refuses the sum; Sluice answers OVER_LIMIT. Other counters may differ: Sluice sends ' +
      'to two Redis at once, the reference omits the second after the error (the reverse of Q37), and Sluice adds equal keys at once',
    explains: (sent, sluice, reference, variant) =>
      variant.hasGiants && // nothing else makes Redis refuse
      isOverflow(sent, reference) &&
      !isRedisError(sent, sluice),
  },
  {
    name: 'a number in quotes with something behind it',
    reason: 'protobuf-go reads `"4$9"` as 4 and stops; Sluice refuses it, as specified in 6.3',
    explains: ({ text }, sluice, reference) =>
      text !== null &&
      sluice.status === 'http 400' &&
      reference.status !== 'http 400' &&
      /(hits_?addend|requests_?per_?unit)"\s*:\s*"-?\d[^"]*[^"\d.eE+-][^"]*"/i.test(
        Buffer.from(text).toString('latin1'),
      ),
  },
]

export function knownDifference(
  sent: SentRequest,
  sluice: ReceivedResponse,
  reference: ReceivedResponse,
  variant: Variant,
): Known | undefined {
  return KNOWN.find((known) => known.explains(sent, sluice, reference, variant))
}

/** In a text any number counts: both accept such a number only as hits. */
function hasHitsAbove({ request, text }: SentRequest, max: bigint): boolean {
  if (text !== null) return [...String(text).matchAll(/\d{19,}/g)].some(([digits]) => BigInt(digits) > max)
  return request.descriptors.some(({ hitsAddend }) => hitsAddend !== null && BigInt(hitsAddend) > max)
}

/** Over JSON every error has the same text. */
function isError({ status, body }: ReceivedResponse, text: string): boolean {
  return status === 'http 400' || (status === 'grpc 2' && String(body).startsWith(text))
}

/** The error of Redis for a sum above 2^63-1. Over JSON every error has the same text. */
function isOverflow(sent: SentRequest, received: ReceivedResponse): boolean {
  if (!isRedisError(sent, received)) return false
  return received.status === 'http 400' || String(received.body).includes('would overflow')
}

/** A valid request that was refused: over JSON an error of Redis and one of the request look the same. */
function isRedisError({ text }: SentRequest, { status, body }: ReceivedResponse): boolean {
  if (text === null) return status === 'grpc 2' && !FIXED_ERRORS.includes(String(body))
  if (status !== 'http 400') return false
  try {
    const { domain, descriptors } = JSON.parse(String(text))
    return domain !== '' && descriptors.length > 0
  } catch {
    return false
  }
}

/** What differs, or ''. The texts of Redis errors are not compared: the spec leaves them open. */
export function difference(sluice: ReceivedResponse, reference: ReceivedResponse): string {
  if (sluice.status !== reference.status) return 'status'
  if (sluice.headers !== reference.headers) return 'headers'
  if (sluice.raw !== reference.raw) return 'body'
  if (sluice.status === 'grpc 0' || sluice.status.startsWith('http')) return ''
  const isFixed = FIXED_ERRORS.includes(String(sluice.body)) || FIXED_ERRORS.includes(String(reference.body))
  return isFixed && sluice.body !== reference.body ? 'message' : ''
}
