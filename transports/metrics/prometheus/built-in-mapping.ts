/**
 * The mapping where no file is given (spec 7.6), as such a file; a good one to start from.
 *
 * The reference's expressions are not tied to the ends of a name, so `over_limit_with_local_cache` of rules with several
 * keys was added to `over_limit`, too (Q3). These are: each statistic is counted once, and that one has no mapping.
 */
const STATS = ['near_limit', 'over_limit', 'total_hits', 'within_limit', 'shadow_mode']

const RULES = STATS.map(
  (stat) => `
  - match: ratelimit.service.rate_limit.*.*.${stat}
    name: ratelimit_service_rate_limit_${stat}
    labels: { domain: $1, key1: $2 }
  - match: ^ratelimit\\.service\\.rate_limit\\.([^.]*)\\.([^.]*)\\.([^.]*)(\\..*)?\\.${stat}$
    match_type: regex
    name: ratelimit_service_rate_limit_${stat}
    labels: { domain: $1, key1: $2, key2: $3 }`,
).join('')

const SCALE = `
    scale: 0.001`

/** The metric keeps the word seconds in its name when it holds milliseconds, as there. */
export function builtInMapping(isInMilliseconds: boolean): string {
  return `mappings:${RULES}
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
