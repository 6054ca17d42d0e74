/** Slugs of sites that a prober probes soon after its start: first probes are spread over a whole interval. */
import { firstSlotMs } from '../../monitor/scheduler/schedule.ts'

/** The first probe is due within `soonMs`. */
export function soonProbed(name: string, intervalSec: number, soonMs = 250): string {
  for (let i = 1; ; i++) {
    const slug = `${name}-${i}`
    if (firstSlotMs(slug, intervalSec * 1_000, 0) < soonMs) return slug
  }
}
