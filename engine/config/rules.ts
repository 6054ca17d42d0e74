/**
 * The rules of one configuration load. Immutable; a request uses one version from its first look-up to its response.
 *
 *     YAML files ──► Node trees (validated) ──► RulesImage ──► Trie, a view of it in every worker
 *                    config/, in a job          shared memory   match/
 *
 * The image is flat memory shared by all threads, so passing 100,000 rules moves one pointer. Rule objects are created
 * from it on first use and cached, so a hit allocates nothing.
 */
import type { JsonObject, RateLimit } from '../../proto/ratelimit.ts'

/**
 * What a rule answers when its hits cannot be counted: `error` fails the call, `allow` and `deny` answer without a count, `local`
 * counts in this process.
 */
export const STORE_ERROR_POLICIES = ['error', 'allow', 'deny', 'local'] as const
export type StoreErrorPolicy = (typeof STORE_ERROR_POLICIES)[number]

/** The place in the configuration. */
export interface Place {
  file: string // a rule file, or the name of an xDS resource
  line: number // 0 when the source has no lines
}

/** One node of a validated configuration: `key`, or `key` and `value`, with an optional limit and children. */
export interface RuleNode extends Place {
  key: string
  value: string // empty = the default node of that key
  limit: RuleLimit | null
  children: RuleNode[]
  isShadow: boolean
  isQuota: boolean
  onStoreError: StoreErrorPolicy | null // null = STORE_ERROR_POLICY
  localShare: number | null // percent, 1 to 100; null = 100
  hasDetailedMetric: boolean
  hasValueToMetric: boolean
  hasShareThreshold: boolean
  metadata: JsonObject | null
}

export interface RuleLimit extends RateLimit {
  isUnlimited: boolean
  replaces: string[] // names of rules dropped when this one matches in the same request
}

/** All domains of one load, in load order (files sorted by name; several files may define one domain). */
export interface RuleDomain {
  name: string
  nodes: RuleNode[]
}

/** The compiled rules, ready to be posted to any thread. Layout: match/image.ts. */
export interface RulesImage {
  memory: SharedArrayBuffer
  rulesCount: number // nodes that carry a limit
  domainsCount: number
}

/** A limit as matched by requests. `id` is its index in the image; -1 for a limit sent with the request. */
export interface Rule {
  readonly id: number
  readonly path: string // `domain.key_value.key`, the configured text (spec 2.3 "config key")
  readonly limit: RateLimit
  readonly isUnlimited: boolean
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly onStoreError: StoreErrorPolicy | null // null = STORE_ERROR_POLICY
  readonly localShare: number | null // percent of the limit, 1 to 100; null = 100
  readonly replaces: readonly string[]
  readonly metadata: JsonObject | null
}

/** The result of a match. Owned by the caller and reused, so a miss allocates nothing. */
export interface Match {
  rule: Rule | null
  statsKey: string // spec 2.3; equals rule.path unless metric flags change it
  /** Per entry: the text that replaces its value in the counter key (share_threshold), or '' for the value itself.
   * Never shortened: items beyond the entries of this match are left over from earlier ones. */
  sharedValues: string[]
}
