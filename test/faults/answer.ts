/**
 * The answer to a call, and what it says about each of its descriptors. The header of a degraded answer names one policy for all of them, so
 * for some descriptors the answer does not tell; with RESPONSE_DYNAMIC_METADATA it does.
 */
import type { StoreErrorPolicy } from '../../engine/config/rules.ts'
import { Code, type DescriptorStatus } from '../../proto/ratelimit.ts'
import type { FaultRule, HistoryItem } from './model.ts'

export type Answer =
  | {
      kind: 'answered'
      overallCode: Code
      statuses: readonly DescriptorStatus[]
      degraded: string // the header; '' = all hits were counted
      policies: readonly (string | null)[] | null // per descriptor, from the metadata; null = not known
    }
  | { kind: 'failed'; reason: string } // an error of the service
  | { kind: 'unanswered'; reason: string } // the connection was lost, or the run ended

const DEADLINE_EXCEEDED = '4 ' // begins the reason of a failed call

/** `header`: that of a degraded answer names the policy that admits least. */
const BY_STRICTNESS: readonly string[] = ['allow', 'local', 'deny']

/** How the store and the service count, as far as it changes what answers mean. */
export interface StoreTraits {
  stopsIncrement?: boolean // STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT
  isTwoStep?: boolean // with it, and with several nodes: counts are read before hits are added
  hasOverLimitCache?: boolean // LOCAL_CACHE_SIZE_IN_BYTES
  isExact?: boolean // default true; false: the store reads before it adds, as memcached does
  countsRepeatsAlike?: boolean // descriptors of a call with the same counter all get the count before the call, as memcached's do
  mayEvict?: boolean | ((rule: FaultRule) => boolean) // the store may lose any counter, or that of such a rule, at any time
}

export function mayBeEvicted({ mayEvict = false }: StoreTraits, rule: FaultRule): boolean {
  return typeof mayEvict === 'function' ? mayEvict(rule) : mayEvict
}

/** `skipped`: its hits were not added, because another limit of the call was exceeded. `unknown`: the answer does not tell. */
export type ItemKind = 'counted' | 'skipped' | 'unknown' | StoreErrorPolicy

/** How each descriptor was answered. The answer must have a status for each. */
export function classifyItems(
  items: readonly HistoryItem[],
  { statuses, degraded, policies }: Answer & { kind: 'answered' },
  { stopsIncrement = false, isTwoStep = false, hasOverLimitCache = false }: StoreTraits,
): ItemKind[] {
  const isOver = statuses.some(({ code }) => code === Code.OverLimit)
  // the second use of a key may be over only because of the first: the service looks at the counts before the call
  const isRepeated =
    stopsIncrement && new Set(items.map(({ rule, value }) => rule.key + value)).size < items.length
  return items.map(({ rule }, i): ItemKind => {
    const { code, limitRemaining, currentLimit } = statuses[i]
    const policy = policies === null ? readHeader(degraded, rule, items.length) : (policies[i] ?? null)
    const mayBeAllowed = code === Code.Ok && limitRemaining === currentLimit?.requestsPerUnit
    if (policy === 'unknown') {
      if (rule.policy === 'allow' && mayBeAllowed) return 'allow' // a count would leave less
      if (rule.policy === 'local' || (rule.policy === 'deny' && code === Code.OverLimit)) return 'unknown'
    } else if (policy !== null) return policy as StoreErrorPolicy
    if (!stopsIncrement) return 'counted'
    if (degraded !== '' && items.length > 1) return 'unknown' // the limit that was exceeded may not show
    if (!isOver) return 'counted'
    if (isRepeated) return 'unknown'
    if (code === Code.OverLimit) return 'counted'
    return isTwoStep || hasOverLimitCache ? 'unknown' : 'skipped'
  })
}

/** The policy of one descriptor, null if it was counted, 'unknown' if the header does not tell. */
function readHeader(
  header: string,
  { policy }: FaultRule,
  itemsCount: number,
): StoreErrorPolicy | 'unknown' | null {
  if (header === '') return null
  if (itemsCount === 1) return header === policy ? policy : 'unknown'
  const mayBeDegraded = policy !== 'error' && BY_STRICTNESS.indexOf(policy) <= BY_STRICTNESS.indexOf(header)
  return mayBeDegraded ? 'unknown' : null
}

/** The service gave up at the call's deadline: it came too late even to apply the policies. */
export function isGivenUp(answer: Answer): boolean {
  return answer.kind === 'failed' && answer.reason.startsWith(DEADLINE_EXCEEDED)
}
