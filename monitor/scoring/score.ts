/**
 * The score of a site, 0 to 100, from measurements only (spec 7.2, formula `score-1`).
 *
 *     availability 40 │ models 20 │ latency 15 │ reachability 15 │ hygiene 10      each worth 0 to 1
 *
 * Unknown components are left out and the rest is scaled up: a site is not penalised for what cannot be measured. Nothing
 * paid, sponsored or self-reported is included. A change of the formula requires a new METHOD and a changelog entry.
 */
import type { Hygiene, NetworkFacts, RegionState } from '../facts.ts'
import type { History } from './windows.ts'

export const METHOD = 'score-1'

/** Availability → worth, linear in between, constant outside. */
const AVAILABILITY_WORTH: readonly (readonly [number, number])[] = [
  [0.9, 0],
  [0.97, 0.5],
  [0.99, 0.75],
  [0.999, 1],
]
const AVAILABILITY_SHARE = { a24h: 0.2, a7d: 0.5, a30d: 0.3 }
const P50_MS = { best: 300, worst: 3_000, share: 0.6 }
const P95_MS = { best: 1_000, worst: 8_000, share: 0.4 }
export const CERTIFICATE_DAYS_MIN = 14 // of validity left; fewer are a warning
const DAY_SEC = 86_400

export interface ScoreInputs {
  history: Pick<History, 'a24h' | 'a7d' | 'a30d' | 'p50Ms' | 'p95Ms'>
  truthRatio: number | null
  reachability: number | null
  hygiene: number | null
}

export type ComponentKey = 'availability' | 'models' | 'latency' | 'reachability' | 'hygiene'

export interface Component {
  key: ComponentKey
  weight: number
  value: number | null // 0 to 1; null = not known
  inputs: Record<string, number | null>
}

export interface Score {
  value: number // 0 to 100, unrounded; tiers are derived from it; 0 if nothing is known
  components: Component[]
  method: string
}

export function computeScore({ history, truthRatio, reachability, hygiene }: ScoreInputs): Score {
  const { a24h, a7d, a30d, p50Ms, p95Ms } = history
  const components: Component[] = [
    { key: 'availability', weight: 40, value: availabilityWorth(history), inputs: { a24h, a7d, a30d } },
    { key: 'models', weight: 20, value: truthRatio, inputs: { truthRatio } },
    { key: 'latency', weight: 15, value: latencyWorth(p50Ms, p95Ms), inputs: { p50Ms, p95Ms } },
    { key: 'reachability', weight: 15, value: reachability, inputs: { reachability } },
    { key: 'hygiene', weight: 10, value: hygiene, inputs: { hygiene } },
  ]
  const value = weightedMean(components.map((component) => [component.weight, component.value]))
  return { value: 100 * (value ?? 0), components, method: METHOD }
}

/** For display: rounded half up to one decimal. The small term undoes what binary fractions lose (89.65 is 89.6500…01). */
export function displayScore(value: number): number {
  return Math.floor(value * 10 + 0.5 + 1e-9) / 10
}

/** The share of measured regions that reach the site; null if none is measured. */
export function getReachability(states: readonly RegionState['state'][]): number | null {
  const measured = states.filter((state) => state !== 'unknown')
  if (measured.length === 0) return null
  return measured.filter((state) => state === 'reachable').length / measured.length
}

/**
 * `tls` null on an https site means that no handshake was seen, so its parts are unknown; on plain http they are known to be
 * missing.
 */
export function getHygieneValue(
  tls: NetworkFacts['tls'],
  facts: Hygiene,
  { isHttps, nowSec }: { isHttps: boolean; nowSec: number },
): number | null {
  const absent = isHttps ? null : false
  const isLasting = tls?.isValid && tls.notAfterSec - nowSec > CERTIFICATE_DAYS_MIN * DAY_SEC
  return weightedMean([
    [0.4, toNumber(tls ? isLasting === true : absent)],
    [0.2, toNumber(facts.redirectsToHttps)],
    [0.2, toNumber(tls ? tls.version === 'TLSv1.3' : absent)],
    [0.1, toNumber(facts.hasHsts)],
    [0.1, toNumber(facts.leaksUpstream === null ? null : !facts.leaksUpstream)],
  ])
}

export function latencyWorth(p50Ms: number | null, p95Ms: number | null): number | null {
  const worth = (ms: number | null, { best, worst }: { best: number; worst: number }) =>
    ms === null ? null : clamp((Math.log(worst) - Math.log(ms)) / (Math.log(worst) - Math.log(best)))
  return weightedMean([
    [P50_MS.share, worth(p50Ms, P50_MS)],
    [P95_MS.share, worth(p95Ms, P95_MS)],
  ])
}

export function availabilityWorth({ a24h, a7d, a30d }: ScoreInputs['history']): number | null {
  const mean = weightedMean([
    [AVAILABILITY_SHARE.a24h, a24h],
    [AVAILABILITY_SHARE.a7d, a7d],
    [AVAILABILITY_SHARE.a30d, a30d],
  ])
  return mean === null ? null : onLines(mean, AVAILABILITY_WORTH)
}

function onLines(x: number, points: readonly (readonly [number, number])[]): number {
  if (x <= points[0][0]) return points[0][1]
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1]
    const [x1, y1] = points[i]
    if (x <= x1) return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0)
  }
  return points[points.length - 1][1]
}

/** Over the known values; null if there is none. */
function weightedMean(parts: readonly (readonly [number, number | null])[]): number | null {
  let weights = 0
  let sum = 0
  for (const [weight, value] of parts) {
    if (value === null) continue
    weights += weight
    sum += weight * value
  }
  return weights === 0 ? null : sum / weights
}

function toNumber(fact: boolean | null): number | null {
  return fact === null ? null : Number(fact)
}

function clamp(value: number): number {
  return Math.min(1, Math.max(0, value))
}
