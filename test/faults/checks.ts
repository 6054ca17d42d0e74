/** What an answer must fulfil, given what may have been counted: the invariants of history.ts about one descriptor. */
import { Code, type DescriptorStatus } from '../../proto/ratelimit.ts'
import { type ItemKind, mayBeEvicted, type StoreTraits } from './answer.ts'
import { type CallItem, describeItem, type Hits, toLocalLimit } from './model.ts'
import type { Invariant } from './violations.ts'

export type Report = (invariant: Invariant, text: string) => void

/** Whether the status is complete and within its bounds, and is that of the policy which answered. */
export function checkStatus(
  { rule, hits }: CallItem,
  status: DescriptorStatus,
  kind: ItemKind,
  report: Report,
): void {
  const { code, currentLimit, limitRemaining, resetSec } = status
  const limit = currentLimit?.requestsPerUnit ?? -1
  if (code !== Code.Ok && code !== Code.OverLimit) report('format', `a status has code ${code}`)
  if (!(resetSec >= 1 && resetSec <= rule.unitSec)) report('format', `a reset of ${resetSec} s`)
  if (limitRemaining < 0 || limitRemaining > limit || (code === Code.OverLimit && limitRemaining !== 0))
    report('remaining', `${limitRemaining} of ${limit} remain, code ${code}`)
  if (kind === 'deny' && code !== Code.OverLimit) report('policy', 'the policy deny let a call through')
  if (kind === 'allow' && hits <= limit && (code !== Code.Ok || limitRemaining !== limit))
    report('policy', `the policy allow answered code ${code}, ${limitRemaining} of ${limit} remain`)
}

/** Whether the count that the status tells is one that the calls so far can explain. */
export function checkCount(
  item: CallItem,
  { code, currentLimit, limitRemaining }: DescriptorStatus,
  kind: ItemKind,
  isRepeated: boolean, // another descriptor of the call has the same counter
  hasLost: boolean, // the store lost its counts while the call was in flight
  traits: StoreTraits,
  report: Report,
): void {
  const { entry, window, hits, rule } = item
  const { stopsIncrement = false, isExact = true, countsRepeatsAlike = false } = traits
  const mayEvict = mayBeEvicted(traits, rule)
  const limit = currentLimit?.requestsPerUnit ?? 0
  if (kind === 'counted' && !hasLost) {
    const possible = entry.getPossible(window, 'store')
    if (code === Code.OverLimit) {
      if (possible <= limit)
        report(
          'room',
          `${describeItem(item)} is over its limit of ${limit}, at most ${possible} hits counted`,
        )
    } else if (isExact) {
      const least = mayEvict ? hits : item.sure + hits
      const isUnique = !mayEvict && !(countsRepeatsAlike && isRepeated)
      const range = { least, possible, isUnique }
      checkAfter(item, window.store, limit, limitRemaining, range, report)
    }
  } else if (kind === 'skipped' && !hasLost) {
    const after = limit - limitRemaining
    const possible = entry.getPossible(window, 'store') - hits
    if (after < (mayEvict ? 0 : item.sure) || after > possible)
      report('remaining', `${describeItem(item)}: ${after} counted, not ${item.sure} to ${possible}`)
  } else if (kind === 'local') {
    const localLimit = toLocalLimit(limit, rule)
    const possible = entry.getPossible(window, 'local')
    if (code === Code.OverLimit) {
      if (possible <= localLimit)
        report(
          'room',
          `${describeItem(item)} is over its local limit of ${localLimit}, at most ${possible} hits counted`,
        )
    } else if (!stopsIncrement) {
      const range = { least: item.localSure + hits, possible, isUnique: true }
      checkAfter(item, window.local, localLimit, limitRemaining, range, report)
    }
  }
}

/** Of a call that was let through. `isUnique`: no other call may have the same count. */
function checkAfter(
  item: CallItem,
  side: Hits,
  limit: number,
  remaining: number,
  { least, possible, isUnique }: { least: number; possible: number; isUnique: boolean },
  report: Report,
): void {
  const { hits } = item
  const after = limit - remaining
  if (after < least || after > possible) {
    const range = `${least} to ${possible}`
    report(
      'remaining',
      `${describeItem(item)}: ${remaining} of ${limit} remain, so ${after} counted, not ${range}`,
    )
  }
  if (!isUnique || after < hits || after > limit) return
  if (!side.take(after, hits)) report('once', `${describeItem(item)}: two calls got the count ${after}`)
  side.admitted += hits
  side.limitMax = Math.max(side.limitMax, limit) // of two versions: an answer by the lower limit may arrive after more were let through
  if (side.admitted > side.limitMax)
    report(
      'admitted',
      `${describeItem(item)}: ${side.admitted} hits let through, the limit is ${side.limitMax}`,
    )
}

/** Whether one version of the rules has all limits of the answer. */
export function checkVersion(
  items: readonly CallItem[],
  statuses: readonly DescriptorStatus[],
  report: Report,
): void {
  let versions = -1 // a bit each
  for (let i = 0; i < statuses.length; i++) {
    const { limits } = items[i].rule
    const limit = statuses[i].currentLimit?.requestsPerUnit
    let own = 0
    for (let version = 0; version < limits.length; version++)
      if (limits[version] === limit) own |= 1 << version
    if (own === 0) report('format', `${items[i].rule.key} has a limit of ${limit}`)
    versions &= own
  }
  if (versions !== 0) return
  const seen = statuses.map(({ currentLimit }) => currentLimit?.requestsPerUnit).join(', ')
  report('version', `limits of different versions of the rules: ${seen}`)
}
