/**
 * Messages between the monitor's thread and its prober's.
 *
 *     monitor ── sites, detect, cancel, turns, close ──► prober        on changes of the catalogue, detections and vantages
 *     monitor ◄── ready, probe, observation, step, detected, metrics, log ── prober
 */
import type { LogLevel } from '../../engine/runtime/messages.ts'
import type { KeyFile } from '../catalogue/key-file.ts'
import type { Observation, Probe } from '../facts.ts'
import type { DetectionResult } from '../probe/detect.ts'
import type { Step } from '../probe/steps.ts'
import type { Settings } from '../settings.ts'

/** A site to probe, with its stored state at the start. */
export interface ProberSite {
  siteId: number
  slug: string
  url: string
  apiBase: string
  extraPort: number | null // allowed in addition to PROBE_PORTS
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
  | { kind: 'sites'; sites: ProberSite[]; optOut: string[] } // the whole list; replaces the previous one
  | { kind: 'detect'; id: string; url: string; slug: string | null } // slug of a catalogue site with that address
  | { kind: 'cancel'; id: string } // its result is no longer needed
  | { kind: 'turns'; online: string[]; isSingleVantage: boolean } // vantages online in this region, by name
  | { kind: 'close' }

export type FromProber =
  | { kind: 'ready' }
  | { kind: 'probe'; siteId: number; probe: Probe }
  | { kind: 'observation'; siteId: number; observation: Observation }
  | { kind: 'step'; id: string; step: Step }
  | { kind: 'detected'; id: string; result: DetectionResult | null; failure: DetectionFailure | null }
  | { kind: 'metrics'; metrics: ProberMetrics }
  | { kind: 'log'; level: LogLevel; text: string }

export type DetectionFailure = 'target_not_allowed' | 'deadline_exceeded' | 'internal_error'

/** Counted since the start. */
export interface ProberMetrics {
  starts: number
  skippedSlots: number
  lostRuns: number
  lagSec: number // of the light probe that has waited longest
  denials: [reason: string, count: number][]
  hasConnectivity: boolean
}
