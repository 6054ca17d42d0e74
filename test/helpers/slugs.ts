/** Slugs of sites that a prober looks at within its first quarter of a second: first looks are spread over a whole interval. */
import { firstSlotMs } from '../../monitor/scheduler/schedule.ts'

const SOON_MS = 250

export function soonProbed(name: string, intervalSec: number): string {
  for (let i = 1; ; i++) {
    const slug = `${name}-${i}`
    if (firstSlotMs(slug, intervalSec * 1_000, 0) < SOON_MS) return slug
  }
}
