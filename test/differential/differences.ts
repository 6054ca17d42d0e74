/**
 * Differences that are meant, each with its reason. Whatever no line here explains is a failure.
 *
 *     question, both answers ──► the first known difference that explains them, or undefined
 *
 * Asked for every question, because equal answers (two errors, say) may leave different counters behind. After one the
 * lane it happened in is set aside for the round.
 */
import type { Answer, Question } from './ask.ts'
import type { Variant } from './variants.ts'

export interface Known {
  name: string
  reason: string // with the number of spec section 12, or the row of docs/differences.md
  explains(question: Question, ours: Answer, reference: Answer, variant: Variant): boolean
}

const HITS_MAX = 2n ** 63n - 1n

/** Errors that the reference words itself; all others are those of its Redis client, and free (spec 5.4). */
const FIXED_ERRORS = [
  'rate limit domain must not be empty',
  'rate limit descriptor list must not be empty',
  'no rate limit configuration loaded',
]

export const KNOWN: Known[] = [
  {
    name: 'hits above 2^63-1',
    reason:
      'Q42: the reference sends them as negative numbers, so a caller can refund itself; ours is an error',
    explains: (question, ours) =>
      hasHitsAbove(question, HITS_MAX) && isError(ours, 'hits_addend must not be above'),
  },
  {
    name: 'an error in the first of two Redis',
    reason:
      'Q37 the other way round: ours asks both at once, the reference leaves the second out after the error',
    explains: (question, ours, reference, variant) =>
      variant.hasGiants && // nothing else makes Redis refuse
      variant.settings.REDIS_PERSECOND === 'true' &&
      isRedisError(question, ours) &&
      isRedisError(question, reference),
  },
  {
    name: 'equal keys at 2^63-1',
    reason:
      'ours adds equal keys of a request at once: where their sum overflows none is added, there the first is; the ' +
      'request fails in both, so only the counter tells',
    explains: (question, ours, reference, variant) =>
      variant.hasGiants &&
      hasEqualDescriptors(question) &&
      isRedisError(question, ours) &&
      isRedisError(question, reference),
  },
  {
    name: 'a number in quotes with something behind it',
    reason: 'protobuf-go reads `"4$9"` as 4 and stops; ours refuses it, as spec 6.3 has it',
    explains: ({ text }, ours, reference) =>
      text !== null &&
      ours.status === 'http 400' &&
      reference.status !== 'http 400' &&
      /(hits_?addend|requests_?per_?unit)"\s*:\s*"-?\d[^"]*[^"\d.eE+-][^"]*"/i.test(
        Buffer.from(text).toString('latin1'),
      ),
  },
]

export function knownDifference(
  question: Question,
  ours: Answer,
  reference: Answer,
  variant: Variant,
): Known | undefined {
  return KNOWN.find((known) => known.explains(question, ours, reference, variant))
}

function hasEqualDescriptors({ request }: Question): boolean {
  const keys = request.descriptors.map(({ entries }) => JSON.stringify(entries))
  return new Set(keys).size < keys.length
}

/** In a text any number counts: where else than in hits would both take it? */
function hasHitsAbove({ request, text }: Question, max: bigint): boolean {
  if (text !== null) return [...String(text).matchAll(/\d{19,}/g)].some(([digits]) => BigInt(digits) > max)
  return request.descriptors.some(({ hitsAddend }) => hitsAddend !== null && BigInt(hitsAddend) > max)
}

/** Over JSON every error reads the same. */
function isError({ status, body }: Answer, text: string): boolean {
  return status === 'http 400' || (status === 'grpc 2' && String(body).startsWith(text))
}

/** A sound request that was refused: over JSON nothing else tells it from an unsound one. */
function isRedisError({ text }: Question, { status, body }: Answer): boolean {
  if (text === null) return status === 'grpc 2' && !FIXED_ERRORS.includes(String(body))
  if (status !== 'http 400') return false
  try {
    const { domain, descriptors } = JSON.parse(String(text))
    return domain !== '' && descriptors.length > 0
  } catch {
    return false
  }
}

/** What differs, or ''. The spec leaves open: the text of Redis errors. */
export function difference(ours: Answer, reference: Answer): string {
  if (ours.status !== reference.status) return 'status'
  if (ours.headers !== reference.headers) return 'headers'
  if (ours.raw !== reference.raw) return 'body'
  if (ours.status === 'grpc 0' || ours.status.startsWith('http')) return ''
  const isFixed = FIXED_ERRORS.includes(String(ours.body)) || FIXED_ERRORS.includes(String(reference.body))
  return isFixed && ours.body !== reference.body ? 'message' : ''
}
