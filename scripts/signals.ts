/**
 * The signals that end a service (spec 8.3).
 *
 *     SIGTERM, SIGINT, SIGHUP ──► end, in order
 *     the same a second later ──► the end, at once
 */
import type { Log } from '../engine/messages.ts'

/** A terminal and a supervisor may both send the same signal, and the launcher passes it on. */
const SAME_SIGNAL_MS = 1_000

/** Calls `end` once. */
export function whenSignalled(log: Log, end: () => void): void {
  let firstMs: number | null = null
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(name, () => {
      if (firstMs === null) {
        log('info', `Received signal ${name}, initiating shutdown`)
        firstMs = performance.now()
        end()
      } else if (performance.now() - firstMs < SAME_SIGNAL_MS) {
        log('info', `Received signal ${name} again, still shutting down`)
      } else {
        log('warning', `Received signal ${name} again, ending at once`)
        process.kill(process.pid, 'SIGKILL') // an orderly exit would wait for what the caller no longer waits for
      }
    })
  }
}
