/**
 * The whole vocabulary between the monitor's thread and its prober's.
 *
 *     monitor ── sites, opt-outs, detect, close ──► prober        as often as the catalogue or a caller changes something
 *     monitor ◄── probe, observation, step, detected, figures, log ── prober
 */
import type { LogLevel } from '../../engine/runtime/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import type { KeyFile } from '../catalogue/key-file.ts'
import type { Observation, Probe } from '../facts.ts'
import type { DetectionResult } from '../probe/detect.ts'
import type { Step } from '../probe/steps.ts'

/** A site to look at, with what the store knew of it at the start. */
export interface ProberSite {
  siteId: number
  slug: string
  url: string
  apiBase: string
  extraPort: number | null // one port beyond the general ones
  keyFile: KeyFile | null
  intervalSec: number | null // null = PROBE_INTERVAL_S
  lastFullSec: number | null // null = never
  addresses: string[] // of its last resolution
  downs: number // in a row
  downSinceSec: number | null
}

export interface ProberData {
  settings: Settings
  version: string
  ownHosts: string[] // of the cache backend: never a target
}

export type ToProber =
  | { kind: 'sites'; sites: ProberSite[]; optOut: string[] } // all of them; replaces what was there
  | { kind: 'detect'; id: string; url: string; slug: string | null } // slug of a catalogue site with that address
  | { kind: 'cancel'; id: string } // nobody waits for it any more
  | { kind: 'turns'; online: string[]; isSingleVantage: boolean } // who probes this region now, by name
  | { kind: 'close' }

export type FromProber =
  | { kind: 'probe'; siteId: number; probe: Probe }
  | { kind: 'observation'; siteId: number; observation: Observation }
  | { kind: 'step'; id: string; step: Step }
  | { kind: 'detected'; id: string; result: DetectionResult | null; failure: DetectionFailure | null }
  | { kind: 'figures'; sendMetrics: ProberMetrics }
  | { kind: 'log'; level: LogLevel; text: string }

export type DetectionFailure = 'target_not_allowed' | 'deadline_exceeded' | 'internal_error'

/** Since the start. For metrics. */
export interface ProberMetrics {
  starts: number
  skippedSlots: number
  lostRuns: number
  lagSec: number // of the light probe that waits longest
  denials: [reason: string, count: number][]
  areControlsAnswering: boolean
}
