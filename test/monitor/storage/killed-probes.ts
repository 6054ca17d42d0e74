/** Site and time of probe number n, for the process that writes probes and the test that checks them. */
import { NOW_SEC } from './stores-plain.ts'

export const SITES_COUNT = 20
const MINUTE_SEC = 60

export function getSlug(number: number): string {
  return `site-${number % SITES_COUNT}`
}

export function getTimeSec(number: number): number {
  return NOW_SEC + Math.floor(number / SITES_COUNT) * MINUTE_SEC
}
