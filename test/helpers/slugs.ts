/** Slugs of sites whose first probe is within two seconds. First probes are spread over a whole interval. */
import { firstSlotMs } from '../../monitor/scheduler/schedule.ts'

const SOON_MS = 2_000

export function soonProbed(name: string, intervalSec: number): string {
  for (let i = 1; ; i++) {
    const slug = `${name}-${i}`
    if (firstSlotMs(slug, intervalSec * 1_000, 0) < SOON_MS) return slug
  }
}
