/** What a run of an outage comes to: figures for the table, and a series over time for the picture. */
import { findWrongAnswers } from './envoy-outage-limits.ts'
import { type Answer, KINDS, type Kind, type Outcome, type Plan, TIMEOUT_MS } from './envoy-outage-run.ts'

export const STEP_MS = 100

export interface Figures {
  requests: number
  counted: number
  degraded: number
  refused: number // 429, by a count or by a policy
  failed: number
  timeouts: number // of those: calls that Envoy ended
  lateWhileOpen: number // of those: after the circuit breaker had opened
  openMs: number // infinite = it did not open
  serviceP99WhileOpenMs: number // NaN = it did not open
  slowestMs: number // of requests due in the fault
  lost: number // connections of Envoy to the service
  backMs: number
  wrong: number // answers that the limit does not allow
  differing: number // answers that Envoy's statistics do not confirm
  lagMs: number // of the generator
  failedBefore: number // requests due before the fault; not 0 = the machine was too busy to say anything
}

/** Requests that were due within STEP_MS. */
export interface Step {
  atMs: number // begin, since the fault began
  counts: Record<Kind, number>
  p50Ms: number
  p99Ms: number // the slowest but one of 200 requests
}

export interface Run {
  figures: Figures
  steps: Step[]
  faultMs: number
}

/** The runs of one line of the table, and of one panel of the picture. */
export interface Row {
  store: Plan['store']
  fault: Plan['fault']
  service: Plan['service']
  ratePerSec: number
  runs: Run[]
}

export function summarize(outcome: Outcome, plan: Pick<Plan, 'service' | 'fault' | 'limit'>): Run {
  const { firstMs, faultMs, envoy, envoyWhileOpen, openMs, lagMs } = outcome
  const answers = outcome.answers.filter(({ atMs }) => atMs >= firstMs)
  const count = (...kinds: Kind[]) => answers.filter(({ kind }) => kinds.includes(kind)).length
  const isByStore = ({ kind }: Answer) => kind === 'counted' || kind === 'refused'
  const figures = {
    requests: answers.length,
    counted: count('counted'),
    degraded: count('degraded'),
    refused: count('denied', 'refused'),
    failed: count('failed'),
    timeouts: envoy.timeouts,
    lateWhileOpen: envoyWhileOpen?.timeouts ?? 0,
    openMs,
    serviceP99WhileOpenMs:
      envoyWhileOpen === null ? Number.NaN : findQuantileMs(envoyWhileOpen.callsByMs, 0.99),
    slowestMs: answers.reduce(
      (slowest, { atMs, latencyMs }) =>
        atMs >= 0 && atMs < faultMs ? Math.max(slowest, latencyMs) : slowest,
      0,
    ),
    lost: envoy.connectionsLost + envoy.connectFailures,
    backMs: Math.max(0, (answers.findLast((answer) => !isByStore(answer))?.atMs ?? 0) - faultMs),
    wrong: findWrongAnswers(outcome, plan).length,
    differing: countDiffering(outcome),
    lagMs,
    failedBefore: answers.filter(({ kind, atMs }) => kind === 'failed' && atMs < -TIMEOUT_MS).length,
  }
  return { figures, steps: toSteps(answers, firstMs), faultMs }
}

/** Of all answers, warm-up included, since a call may be on its way when the warm-up ends. */
function countDiffering({ answers, envoyInAll: { error, overLimit, failureModeAllowed } }: Outcome): number {
  const count = (...kinds: Kind[]) => answers.filter(({ kind }) => kinds.includes(kind)).length
  return (
    Math.abs(count('failed') - error) + Math.abs(count('denied', 'refused') - overLimit) + failureModeAllowed
  )
}

function toSteps(answers: readonly Answer[], firstMs: number): Step[] {
  const byStep = Map.groupBy(answers, ({ atMs }) => Math.floor((atMs - firstMs) / STEP_MS))
  return [...byStep].map(([step, own]) => {
    const latencies = own.map(({ latencyMs }) => latencyMs).sort((a, b) => a - b)
    const counts = KINDS.map((kind) => [kind, own.filter((answer) => answer.kind === kind).length])
    return {
      atMs: firstMs + step * STEP_MS,
      counts: Object.fromEntries(counts) as Record<Kind, number>,
      p50Ms: latencies[Math.floor(0.5 * latencies.length)],
      p99Ms: latencies[Math.floor(0.99 * latencies.length)],
    }
  })
}

function findQuantileMs(callsByMs: ReadonlyMap<number, number>, share: number): number {
  const sorted = [...callsByMs].sort(([a], [b]) => a - b)
  const calls = sorted.reduce((sum, [, count]) => sum + count, 0)
  let seen = 0
  for (const [ms, count] of sorted) {
    seen += count
    if (seen >= share * calls) return ms
  }
  return Number.NaN
}
