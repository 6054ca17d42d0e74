/** What the web site needs from its composition. */
import type { Log } from '../../engine/runtime/messages.ts'
import type { Body } from '../api/bodies.ts'
import type { ChangelogEntry } from '../api/changelog.ts'
import type { AddressOptions } from '../api/client-address.ts'
import type { RequestLine } from '../api/options.ts'
import type { QuotaEngine, QuotaKind } from '../api/quota.ts'
import type { Details } from '../api/site-detail.ts'
import type { DetectionQueue } from '../detections/detection-queue.ts'
import type { CheckUrl } from '../detections/submission.ts'
import type { Snapshot } from '../storage/snapshot.ts'

export interface WebSiteOptions {
  limiter: QuotaEngine
  nowMs: () => number
  snapshot: () => Snapshot | null // null = not loaded
  details: Details
  detections: DetectionQueue
  checkUrl: CheckUrl
  hasDetections: boolean // DETECTIONS_ENABLED
  address: AddressOptions
  publicBaseUrl: string // without a final slash; empty = unknown
  supportEmail: string // empty = none
  isSharedCache: boolean // API_SHARED_CACHE
  probeIntervalSec: number
  userAgent: string // of the prober
  images: Images
  hasScreenshots?: () => boolean // whether pictures are being taken; default false
  changelog?: readonly ChangelogEntry[] // default api/changelog.yaml
  log: Log
  onRequest?: (line: RequestLine) => void
  onLimited?: (quotaClass: string) => void
  onQuotaFailure?: (kind: QuotaKind) => void
}

/** Screenshots, by site and month (screenshots/image-cache.ts). */
export interface Images {
  /** Null if there is none. */
  get(siteId: number, month: string, version: number, nowSec: number): Promise<Body | null>
}
