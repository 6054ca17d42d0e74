/** Which probe number n is, for the process that writes them and for the test that looks for them. */
import { NOW_SEC } from './stores-plain.ts'

export const SITES_COUNT = 20
const MINUTE_SEC = 60

export function siteOf(number: number): string {
  return `site-${number % SITES_COUNT}`
}

export function atOf(number: number): number {
  return NOW_SEC + Math.floor(number / SITES_COUNT) * MINUTE_SEC
}
