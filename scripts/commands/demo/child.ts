/**
 * A process of the demo: the `sluice` command of its arguments, until the demo is gone. The channel to the demo closes with
 * it, also by SIGKILL, and then this process ends in order, within END_MS_MAX.
 */
import { END_MS_MAX } from './processes.ts'

process.once('disconnect', end)
if (!process.connected) end()
await import('../../sluice.ts')

function end(): void {
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), END_MS_MAX).unref()
  process.kill(process.pid, 'SIGTERM')
}
