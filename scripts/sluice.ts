/** The command line. This file connects commands/run.ts with the process: streams, warnings, exit code. */
import { processIo } from './commands/io.ts'
import { run } from './commands/run.ts'

/** From the end of a command to a forced exit, which only a thread that does not end makes necessary. */
const EXIT_MS = 5_000

const args = process.argv.slice(2)

// Read once, when uWebSockets.js is loaded: header blocks up to 16 KiB instead of 4 (spec of the monitor, 1.2).
process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'
for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreClosedPipe)
hideExperimentalWarnings()

process.exitCode = await run(args, processIo())
process.channel?.unref() // of a parent process that can send messages
setTimeout(() => process.exit(), EXIT_MS).unref()

/** The reader may have closed the pipe, as in `sluice monitor export | head -1`. A service does not depend on its output. */
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE' && args[0] !== 'serve') throw error
}

/** node:sqlite warns once per process that it is experimental in Node 22, which is of no use to an operator. */
function hideExperimentalWarnings(): void {
  const listeners = process.listeners('warning')
  process.removeAllListeners('warning')
  process.on('warning', (warning) => {
    if (warning.name !== 'ExperimentalWarning') for (const listener of listeners) listener(warning)
  })
}
