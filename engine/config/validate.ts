/**
 * Validates drafts and turns them into rules: the checks of spec 1.4 in its order, and merged domains (spec 1.7).
 *
 *     a.yaml  domain shop: user         ┐            domain shop
 *     b.yaml  domain shop: path, user_* ┼─ merge ─►    user, path, user_*      siblings in the order of the files
 *     c.yaml  domain mail: to           ┘            domain mail: to
 *
 * Parents are checked before children, files in load order; the first error ends the load.
 */
import type { JsonObject } from '../../proto/ratelimit.ts'
import { parseUnit } from '../decision/window.ts'
import { DESCRIPTOR_DEPTH_MAX, DESCRIPTORS_MAX } from './bounds.ts'
import type { LimitDraft, NodeDraft, RuleDraft } from './draft.ts'
import { ConfigError } from './error.ts'
import {
  type RuleDomain,
  type RuleLimit,
  type RuleNode,
  STORE_ERROR_POLICIES,
  type StoreErrorPolicy,
} from './rules.ts'

const LOCAL_SHARE_MAX = 100 // percent

export interface ValidateOptions {
  isMerging: boolean // MERGE_DOMAIN_CONFIG: several files may define one domain
}

/** Throws a ConfigError. `drafts` are in load order; only their metadata is retained. */
export function validate(drafts: readonly RuleDraft[], { isMerging }: ValidateOptions): RuleDomain[] {
  const domains = new Map<string, { domain: RuleDomain; composites: Set<string> }>()
  const count = { descriptors: 0 }
  for (const draft of drafts) {
    if (draft.domain === '') throw new ConfigError(draft.file, 'config file cannot have empty domain')
    let loaded = domains.get(draft.domain)
    if (loaded && !isMerging) {
      throw new ConfigError(draft.file, `duplicate domain '${draft.domain}' in config file`)
    }
    if (!loaded) {
      loaded = { domain: { name: draft.domain, nodes: [] }, composites: new Set() }
      domains.set(draft.domain, loaded)
    }
    const level = {
      file: draft.file,
      path: draft.domain,
      depth: 1,
      composites: loaded.composites,
      count,
    }
    for (const node of draft.nodes) loaded.domain.nodes.push(toRuleNode(node, level))
  }
  return [...domains.values()].map(({ domain }) => domain)
}

interface Level {
  file: string
  path: string // of the parent
  depth: number
  composites: Set<string> // of the siblings so far
  count: { descriptors: number }
}

function toRuleNode(draft: NodeDraft, level: Level): RuleNode {
  const fail = (text: string) => {
    throw new ConfigError(level.file, text, draft.line)
  }
  if (draft.key === '') fail('descriptor has empty key')
  const composite = draft.value === '' ? draft.key : `${draft.key}_${draft.value}`
  const path = `${level.path}.${composite}`
  if (level.composites.has(composite)) fail(`duplicate descriptor composite key '${path}'`)
  level.composites.add(composite)
  if (++level.count.descriptors > DESCRIPTORS_MAX) fail(`more than ${DESCRIPTORS_MAX} descriptors`)
  if (level.depth > DESCRIPTOR_DEPTH_MAX)
    fail(`descriptors are nested more than ${DESCRIPTOR_DEPTH_MAX} deep`)
  const limit = draft.limit && toRuleLimit(draft.limit, fail)
  if (draft.hasShareThreshold && !composite.includes('*')) {
    fail(
      `share_threshold can only be used with wildcard values (containing '*'), but found key '${composite}'`,
    )
  }
  const onStoreError = toStoreErrorPolicy(draft.onStoreError, fail)
  const { localShare } = draft
  if (localShare !== null && (localShare < 1 || localShare > LOCAL_SHARE_MAX)) fail(invalidShare(localShare))
  const problem = findStructProblem(draft.metadata)
  if (problem) fail(`error parsing metadata: ${problem}`)
  const below = { ...level, path, depth: level.depth + 1, composites: new Set<string>() }
  return {
    file: level.file,
    line: draft.line,
    key: draft.key,
    value: draft.value,
    limit,
    children: draft.nodes.map((child) => toRuleNode(child, below)),
    isShadow: draft.isShadow,
    isQuota: draft.isQuota,
    onStoreError,
    localShare,
    hasDetailedMetric: draft.hasDetailedMetric,
    hasValueToMetric: draft.hasValueToMetric,
    hasShareThreshold: draft.hasShareThreshold,
    metadata: draft.metadata as JsonObject | null, // checked by findStructProblem
  }
}

export function invalidShare(shown: string | number): string {
  return `invalid local_share ${shown}: it is a percentage, a whole number from 1 to ${LOCAL_SHARE_MAX} without quotes or a percent sign`
}

function toStoreErrorPolicy(text: string, fail: (text: string) => void): StoreErrorPolicy | null {
  if (text === '') return null
  const policy = STORE_ERROR_POLICIES.find((word) => word === text)
  if (policy === undefined)
    fail(`invalid on_store_error '${text}': it is one of ${STORE_ERROR_POLICIES.join(', ')}`)
  return policy ?? null
}

function toRuleLimit(draft: LimitDraft, fail: (text: string) => void): RuleLimit {
  const unit = parseUnit(draft.unit)
  if (draft.isUnlimited && unit) fail('should not specify rate limit unit when unlimited')
  if (!draft.isUnlimited && !unit) fail(`invalid rate limit unit '${draft.unit}'`)
  for (const name of draft.replaces) {
    if (name === '') fail('should not have an empty replaces entry')
    if (name === draft.name) fail('replaces should not contain name of same descriptor')
  }
  const { name, requestsPerUnit, isUnlimited, replaces } = draft
  return { name, requestsPerUnit, unit, isUnlimited, replaces }
}

/** Why metadata cannot be a protobuf Struct, or ''. Numbers must be finite, because the image holds metadata as JSON. */
function findStructProblem(value: unknown): string {
  if (typeof value === 'string') return value.isWellFormed() ? '' : 'invalid UTF-8 in string'
  if (typeof value === 'number') return Number.isFinite(value) ? '' : `number ${value} is not finite`
  if (value === null || typeof value !== 'object') return ''
  for (const [key, item] of Object.entries(value)) {
    const problem = findStructProblem(key) || findStructProblem(item)
    if (problem) return problem
  }
  return ''
}
