/**
 * The status of one descriptor from the count before its hits, and the statistics of that (spec 4.4).
 *
 *     0 ─────────────── near ───────── limit ─────────────►
 *            within             near            over           the position of each hit decides which statistic grows
 *     before ├── hits ──────────────────────────┤ after        here 8 hits: some near, some over; the code is OVER_LIMIT
 */
import { Code, type DescriptorStatus } from '../../proto/ratelimit.ts'
import type { Rule } from '../config/rules.ts'
import {
  NEAR_LIMIT,
  OVER_LIMIT,
  OVER_LIMIT_WITH_LOCAL_CACHE,
  SHADOW_MODE,
  type Stats,
  WITHIN_LIMIT,
} from '../stats/stats.ts'
import { resetSec, unitSec } from './window.ts'

/** Hits above this count are near the limit. 32-bit floats, as in envoyproxy/ratelimit: the difference shows for large limits. */
export function nearLimit(limit: number, ratio: number): number {
  return Math.floor(Math.fround(Math.fround(limit) * Math.fround(ratio)))
}

/**
 * `before` and `after` are the counts without and with these hits. `before` below 0 means that they were not added,
 * because another counter of the request is over (spec 4.2). Then `after` is the current count, and all hits count as near
 * the limit if it is (Q9).
 */
export function evaluateLimit(
  rule: Rule,
  before: number,
  after: number,
  hits: number,
  near: number,
  stats: Stats,
  statsBase: number,
  nowSec: number,
): DescriptorStatus {
  const limit = rule.limit.requestsPerUnit
  const reset = resetSec(nowSec, unitSec(rule.limit.unit))
  if (after <= limit) {
    if (after > near) stats.add(statsBase + NEAR_LIMIT, before >= near || before < 0 ? hits : after - near)
    stats.add(statsBase + WITHIN_LIMIT, hits)
    return { code: Code.Ok, currentLimit: rule.limit, limitRemaining: limit - after, resetSec: reset }
  }
  const isAllOver = before >= limit || before < 0
  const over = isAllOver ? hits : after - limit
  stats.add(statsBase + OVER_LIMIT, over)
  // `near` exceeds the limit when 32 bits round the limit up, so the difference can be negative
  if (!isAllOver) stats.add(statsBase + NEAR_LIMIT, Math.max(0, limit - Math.max(near, before)))
  return toOverLimit(rule, over, stats, statsBase, reset)
}

/** The status when the counter is over its limit in the local cache (spec 4.4, step 2). */
export function evaluateLocalHit(
  rule: Rule,
  hits: number,
  stats: Stats,
  statsBase: number,
  nowSec: number,
): DescriptorStatus {
  stats.add(statsBase + OVER_LIMIT_WITH_LOCAL_CACHE, hits)
  return refuse(rule, hits, stats, statsBase, nowSec)
}

/** The status when all hits are refused without a count. */
export function refuse(
  rule: Rule,
  hits: number,
  stats: Stats,
  statsBase: number,
  nowSec: number,
): DescriptorStatus {
  stats.add(statsBase + OVER_LIMIT, hits)
  return toOverLimit(rule, hits, stats, statsBase, resetSec(nowSec, unitSec(rule.limit.unit)))
}

/** Over the limit by `over` hits. A rule in shadow mode returns OK and counts the hits it would have refused. */
function toOverLimit(
  rule: Rule,
  over: number,
  stats: Stats,
  statsBase: number,
  reset: number,
): DescriptorStatus {
  if (rule.isShadow) stats.add(statsBase + SHADOW_MODE, over)
  const code = rule.isShadow ? Code.Ok : Code.OverLimit
  return { code, currentLimit: rule.limit, limitRemaining: 0, resetSec: reset }
}
