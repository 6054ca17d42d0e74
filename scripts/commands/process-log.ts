/**
 * The log of a process that serves.
 *
 *     KVSTORE_URL set      'REDIS_URL "x": …'        is written as   'KVSTORE_URL "x": …'
 *     a start that fails   fatal, then other lines   ends with       the same fatal line again
 */
import type { Log } from '../../engine/runtime/messages.ts'
import type { ParsedSettings } from '../../engine/settings/parse.ts'
import { inWrittenNames } from '../../engine/settings/written-names.ts'
import { createLog, type LogDestination } from './log.ts'

export interface ProcessLog {
  log: Log
  /** Repeats the fatal line if it is not the last one: supervisors show the last line. */
  endWithFatal(): void
}

export function createProcessLog(
  { settings, written }: ParsedSettings,
  destination: LogDestination,
): ProcessLog {
  const rename = inWrittenNames(written)
  let linesCount = 0
  let fatal: { message: string; lineNumber: number } | null = null
  const counting = {
    write(line: string) {
      linesCount++
      destination.write(line)
    },
  }
  const write = createLog(settings.LOG_LEVEL, settings.LOG_FORMAT, counting)
  return {
    log(level, message, fields) {
      const renamed = rename?.(message) ?? message
      write(level, renamed, fields)
      if (level === 'fatal') fatal = { message: renamed, lineNumber: linesCount }
    },
    endWithFatal() {
      if (fatal !== null && fatal.lineNumber < linesCount) write('fatal', fatal.message)
    },
  }
}
