/**
 * Signals and other reasons to shut down from outside (spec 8.3).
 *
 *     SIGTERM, SIGINT, SIGHUP ──► orderly shutdown
 *     the same a second later ──► immediate end
 *     npm has ended (npm start) ► orderly shutdown
 */
import type { Log } from '../../engine/runtime/messages.ts'
import type { Io } from './io.ts'

/** A terminal and a supervisor may both send the same signal: Ctrl-C reaches the service and npm, which forwards it. */
const SAME_SIGNAL_MS = 1_000

/** Calls `end` once. */
export function onShutdownSignal(io: Io, log: Log, end: () => void): void {
  let firstMs: number | null = null
  io.onSignal((name) => {
    if (firstMs === null) {
      log('info', `Received signal ${name}, initiating shutdown`)
      firstMs = performance.now()
      end()
    } else if (performance.now() - firstMs < SAME_SIGNAL_MS) {
      log('info', `Received signal ${name} again, still shutting down`)
    } else {
      log('warning', `Received signal ${name} again, ending at once`)
      process.kill(process.pid, 'SIGKILL') // an orderly exit would wait for the shutdown under way
    }
  })
}

const ORPHANED_POLL_MS = 500

/**
 * Calls `end` if this process was started by `npm start` of this package and npm is gone, for example by SIGKILL, which it
 * cannot forward. npm is the parent process, since the script runs `exec node`.
 */
export function onNpmEnd({ env }: Io, log: Log, end: () => void): void {
  if (env.npm_lifecycle_event !== 'start' || env.npm_package_name !== 'sluice') return
  const npm = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === npm) return
    clearInterval(timer)
    log('warning', 'npm has ended without a signal to this process, initiating shutdown')
    end()
  }, ORPHANED_POLL_MS)
  timer.unref()
}
