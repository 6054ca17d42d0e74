/** What the API needs from its composition, and what it reports of each request. */
import type { Log } from '../../engine/runtime/messages.ts'
import type { DetectionQueue } from '../detections/detection-queue.ts'
import type { CheckUrl } from '../detections/submission.ts'
import type { Snapshot } from '../storage/snapshot.ts'
import type { ChangelogEntry } from './changelog.ts'
import type { AddressOptions } from './client-address.ts'
import type { QuotaEngine, QuotaKind } from './quota.ts'
import type { Details } from './site-detail.ts'
import type { Successor } from './version.ts'

export interface ApiOptions {
  limiter: QuotaEngine // on the rules of default-rules.ts
  nowMs: () => number // the engine's clock
  snapshot: () => Snapshot | null // null = not loaded
  details: Details
  detections: DetectionQueue
  checkUrl: CheckUrl // egress/url-policy.ts bound to its policy
  address: AddressOptions
  version: string // of the service
  hasDetections: boolean // DETECTIONS_ENABLED
  hasScreenshots?: () => boolean // whether screenshots are taken; default false
  hasDraftFields: boolean // RATELIMIT_DRAFT_FIELDS
  isSharedCache: boolean // API_SHARED_CACHE
  supportEmail: string // empty = none
  publicBaseUrl: string // without a final slash; empty = root-relative links
  probeIntervalSec: number
  bodyTimeoutMs?: number // default 8 s
  successor?: Successor | null // of v1; default none
  changelog?: readonly ChangelogEntry[] // default changelog.yaml
  log: Log
  onRequest?: (line: RequestLine) => void // for the access log and metrics
  onQuotaFailure?: (kind: QuotaKind) => void
  onLimited?: (quotaClass: string) => void
}

export interface RequestLine {
  requestId: string
  client: string // its /24 or /48
  route: string // the pattern, never the path of the request
  method: string
  status: number // 0 = the client disconnected first
  ms: number
}
