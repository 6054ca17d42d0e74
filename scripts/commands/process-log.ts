/**
 * The log of a process that serves.
 *
 *     KVSTORE_URL set      'REDIS_URL "x": …'        is written as   'KVSTORE_URL "x": …'
 *     a start that fails   fatal, then other lines   ends with       the same fatal line again
 */
import type { Log } from '../../engine/runtime/messages.ts'
import type { ParsedSettings } from '../../engine/settings/parse.ts'
import { inWrittenNames } from '../../engine/settings/written-names.ts'
import { createLog } from './log.ts'

export interface ProcessLog {
  log: Log
  /** Repeats the fatal line if it is not the last one: supervisors show the last line. */
  endWithFatal(): void
}

export function processLog({ settings, written }: ParsedSettings): ProcessLog {
  const rename = inWrittenNames(written)
  let fatal: string | null = null
  let isLast = false
  const write = createLog(settings.LOG_LEVEL, settings.LOG_FORMAT, (level) => {
    isLast = level === 'fatal'
  })
  return {
    log(level, message, fields) {
      const text = rename?.(message) ?? message
      if (level === 'fatal') fatal = text
      write(level, text, fields)
    },
    endWithFatal() {
      if (fatal !== null && !isLast) write('fatal', fatal)
    },
  }
}
