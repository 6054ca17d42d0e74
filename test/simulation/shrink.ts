/**
 * Makes a failing plan smaller while it fails in the same way: without faults that do not matter, and with fewer calls.
 *
 *     calls 1 … 80, faults 0 1 2 3   ──►   calls 1 … 17, fault 2
 *
 * Delays are drawn while a schedule runs, so a smaller plan may take another course; it counts if the same invariant breaks.
 */
import type { Violation } from './oracle.ts'
import { drawPlan, type Plan } from './plan.ts'
import { runSchedule } from './schedule.ts'

/** Which part of a plan is played. */
export interface Part {
  faults: readonly number[] // indices into the plan's faults
  callsCount: number // the first ones
}

export function wholePart({ faults, calls }: Plan): Part {
  return { faults: faults.map((_, i) => i), callsCount: calls.length }
}

export function takePart(plan: Plan, { faults, callsCount }: Part): Plan {
  const kept = plan.faults.filter((_, i) => faults.includes(i))
  return { ...plan, faults: kept, calls: plan.calls.slice(0, callsCount) }
}

/** The smallest part found that breaks the same invariant as the whole plan. At most some dozens of runs. */
export async function shrink(
  plan: Plan,
  invariant: string,
  run: (plan: Plan) => Promise<{ violation: Violation | null }> = runSchedule,
): Promise<Part> {
  const fails = async (part: Part) => {
    const { violation } = await run(takePart(plan, part))
    return violation?.invariant === invariant
  }
  let part = wholePart(plan)
  for (const fault of part.faults) {
    const smaller = { ...part, faults: part.faults.filter((each) => each !== fault) }
    if (await fails(smaller)) part = smaller
  }
  for (let step = part.callsCount >> 1; step > 0; step >>= 1) {
    const smaller = { ...part, callsCount: part.callsCount - step }
    if (smaller.callsCount > 0 && (await fails(smaller))) {
      part = smaller
      step <<= 1 // as large a step may succeed again
    }
  }
  return part
}

/** The failure of a seed, and the commands that repeat it. */
export async function describeFailure(seed: number, { message, invariant }: Violation): Promise<string> {
  const part = await shrink(drawPlan(seed), invariant)
  const command = `npm run simulate -- --one ${seed}`
  const smaller = `${command} --faults ${part.faults.join(',') || "''"} --calls ${part.callsCount} --trace`
  return `seed ${seed}: ${message}\n  repeat: ${command} --trace\n  the smallest part that fails so: ${smaller}`
}
