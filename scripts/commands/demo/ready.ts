/** Waits for the monitor of the demo. */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'

const POLL_MS = 25
const FETCH_MS_MAX = 5_000 // then it is asked again
const READY_MS_MAX = 60_000 // beyond: an error; it takes 1 to 3 s

/** True when `url` answers with a status of success, false when `isEnding`; throws ConfigurationError after `msMax`. */
export async function waitUntilReady(
  url: string,
  isEnding: () => boolean,
  { msMax = READY_MS_MAX, fetchMsMax = FETCH_MS_MAX } = {},
): Promise<boolean> {
  const endMs = performance.now() + msMax
  while (!isEnding()) {
    const isReady = await fetch(url, { signal: AbortSignal.timeout(fetchMsMax) }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady) return true
    if (performance.now() > endMs)
      throw new ConfigurationError({
        code: 'DEMO_NOT_READY',
        where: url,
        what: `the monitor is not ready after ${msMax / 1_000} s.`,
        fix: 'See its log above; if this machine is busy, try again with --days 3.',
      })
    await sleep(POLL_MS, undefined, { ref: false }) // does not outlive the monitor
  }
  return false
}
