/**
 * The mapping without a mapper file (spec 7.6), in the format of such a file.
 *
 * The expressions of envoyproxy/ratelimit are not anchored, so `over_limit_with_local_cache` of rules with several keys was
 * also added to `over_limit` (Q3). This one is anchored: each statistic is counted once, and that one is not mapped. Hits without
 * a count (`degraded_allow` and others) are mapped in addition to those of envoyproxy/ratelimit.
 */
import { DEGRADED_STATS } from '../../../engine/stats/stats.ts'

const STATS = ['near_limit', 'over_limit', 'total_hits', 'within_limit', 'shadow_mode', ...DEGRADED_STATS]

const RULES = STATS.map(
  (stat) => `
  - match: ratelimit.service.rate_limit.*.*.${stat}
    name: ratelimit_service_rate_limit_${stat}
    labels: { domain: $1, key1: $2 }`,
).join('')

/** Rules of two and more keys. One expression for all statistics, since each costs some microseconds per name. */
const LONGER_RULES = `
  - match: ^ratelimit\\.service\\.rate_limit\\.([^.]*)\\.([^.]*)\\.([^.]*)\\.(?:.*\\.)?(${STATS.join('|')})$
    match_type: regex
    name: ratelimit_service_rate_limit_$4
    labels: { domain: $1, key1: $2, key2: $3 }`

const SCALE = `
    scale: 0.001`

/** The metric's name ends in `seconds` even when its values are milliseconds, as in envoyproxy/ratelimit. */
export function builtInMapping(isInMilliseconds: boolean): string {
  return `mappings:${RULES}${LONGER_RULES}
  - match: ratelimit.service.call.should_rate_limit.*
    match_metric_type: counter
    name: ratelimit_service_should_rate_limit_error
    labels: { err_type: $1 }
  - match: ratelimit_server.*.total_requests
    match_metric_type: counter
    name: ratelimit_service_total_requests
    labels: { grpc_method: $1 }
  - match: ratelimit_server.*.response_time
    name: ratelimit_service_response_time_seconds
    observer_type: histogram
    labels: { grpc_method: $1 }${isInMilliseconds ? '' : SCALE}
  - match: ratelimit.service.config_load_success
    match_metric_type: counter
    name: ratelimit_service_config_load_success
  - match: ratelimit.service.config_load_error
    match_metric_type: counter
    name: ratelimit_service_config_load_error
`
}
