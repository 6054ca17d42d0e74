/**
 * What the HTTP thread serves lists from, without reading the disk (spec 8.2).
 *
 *     writer ── every 5 s, if anything changed ──► Snapshot, frozen ──► list, boards, meta, quotas of keys
 *
 * Snapshots are replaced whole: a request keeps the one it started with. `version` grows with each one, across restarts
 * too, and is the data version of spec 1.4. Details (history, models) come from the reader (reader.ts).
 */
import type { Outcome, Region, RegionState, Tier } from '../facts.ts'
import type { ModelIndex } from './model-index.ts'
import type { Board } from './rows.ts'

export interface Snapshot {
  readonly version: number
  readonly generatedAtSec: number
  readonly sites: readonly SiteState[] // published ones only (spec 2.1), by slug
  readonly aliases: Readonly<Record<string, string>> // alias → slug, of published sites
  readonly boards: Readonly<Record<Board, readonly BoardEntry[]>> // today's, by rank
  readonly vantages: readonly VantageState[] // not revoked, by name
  readonly apiKeys: readonly StoredApiKey[] // never leaves the process; for api-keys.ts
  readonly agents: readonly StoredAgent[] // the vantages that have a token; never leaves the process either
  readonly models: ModelIndex // of all sites
}

/** All but what is too much to send anew every time (model-index.ts). */
export type SnapshotRows = Omit<Snapshot, 'models'>

export interface SiteState {
  readonly id: number // of the store; never on the wire
  readonly slug: string
  readonly name: string
  readonly url: string
  readonly apiBase: string
  readonly firstSeen: string // YYYY-MM-DD
  readonly state: Outcome // of the newest counted probes of both regions, the better one
  readonly tier: Tier
  readonly tierSinceSec: number
  readonly score: number // 0 to 100, unrounded
  readonly facts: unknown // what the scorer wrote with the score, as it wrote it
  readonly screenshotAtSec: number | null // of the newest picture, null = none; part of the key of cached details
  readonly lastProbedSec: number
  readonly regions: Readonly<Record<Region, RegionState>> // unknown where nothing was measured
}

export interface BoardEntry {
  readonly siteId: number
  readonly slug: string
  readonly rank: number
  readonly rankBefore: number | null // on yesterday's board; null = new
  readonly sinceSec: number // the day it entered this board
  readonly reasons: readonly string[] // strongest first
}

export interface VantageState {
  readonly name: string
  readonly region: Region
  readonly country: string | null
  readonly lastSeenSec: number | null
}

/** A vantage that is an agent, by what is kept of its token (spec 6.5). */
export interface StoredAgent {
  readonly vantageId: number
  readonly name: string
  readonly region: Region
  readonly tokenHash: string // SHA-256, hexadecimal
}

/** An API key as it is kept: its hash, never itself (spec 4.4). */
export interface StoredApiKey {
  readonly id: string
  readonly hash: Uint8Array // SHA-256
  readonly tier: string
  readonly expiresAtSec: number | null
  readonly revokedAtSec: number | null
}

export const UNKNOWN_REGION: RegionState = Object.freeze({
  state: 'unknown',
  blocking: 'none',
  vantages: 0,
  agreeing: 0,
  checkedAtSec: null,
})
