/**
 * Drafts: rules as read from a source, typed but not validated. The common form of YAML files and xDS.
 *
 *     YAML bytes ── yaml.ts ── keys.ts ── read.ts ──┐
 *                                                   ├──► RuleDraft ── validate.ts ──► RuleDomain
 *     xDS resource ── resource.ts ──────────────────┘
 */

/** One file or one xDS resource. */
export interface RuleDraft {
  file: string // starts every error text (spec 1.8)
  domain: string
  nodes: NodeDraft[]
}

export interface NodeDraft {
  line: number // for error texts; 0 when the source has no lines
  key: string
  value: string
  limit: LimitDraft | null
  nodes: NodeDraft[]
  isShadow: boolean
  isQuota: boolean
  onStoreError: string // as written; '' = not set
  localShare: number | null // as written; null = not set
  hasDetailedMetric: boolean
  hasValueToMetric: boolean
  hasShareThreshold: boolean
  metadata: Record<string, unknown> | null
}

/** A node without fields. */
export function emptyNode(line: number): NodeDraft {
  return {
    line,
    key: '',
    value: '',
    limit: null,
    nodes: [],
    isShadow: false,
    isQuota: false,
    onStoreError: '',
    localShare: null,
    hasDetailedMetric: false,
    hasValueToMetric: false,
    hasShareThreshold: false,
    metadata: null,
  }
}

export interface LimitDraft {
  unit: string // as written
  requestsPerUnit: number // 0 to 2^32-1
  isUnlimited: boolean
  name: string
  replaces: string[] // names, as written
}
