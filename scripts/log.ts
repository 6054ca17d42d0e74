/**
 * The process's log: pino on standard error, in the two line formats of the service we replace (spec 11.1).
 *
 *     text   time="2026-11-20T10:00:00Z" level=warning msg="Listening for HTTP on '0.0.0.0:8080'"
 *     json   {"@message":"Listening for HTTP on '0.0.0.0:8080'","@timestamp":"2026-11-20T10:00:00.123Z","level":"warning"}
 *
 * Only main writes; workers send their lines to it. Nothing is logged per request.
 */
import pino from 'pino'
import type { Log } from '../engine/messages.ts'

/** pino's numbers for the spec's level names; `panic` and `fatal` are louder than anything we write. */
const LEVELS: Record<string, string> = { warning: 'warn', panic: 'fatal' }

/** `level` is any name of spec 11.1 in any case, `format` is `json` in any case or anything else for text. */
export function createLog(level: string, format: string): Log {
  const name = level.toLowerCase()
  const line = format.toLowerCase() === 'json' ? jsonLine : textLine
  const logger = pino(
    {
      level: LEVELS[name] ?? name,
      base: null,
      timestamp: false,
      hooks: { streamWrite: (json) => line(JSON.parse(json)) },
      formatters: { level: (label) => ({ level: label === 'warn' ? 'warning' : label }) },
    },
    pino.destination({ dest: 2, sync: true }), // a line must not be lost when the process ends after it
  )
  return (lineLevel, message) => {
    if (lineLevel === 'warning') logger.warn(message)
    else logger[lineLevel](message)
  }
}

interface Line {
  level: string
  msg: string
}

function textLine({ level, msg }: Line): string {
  const quoted = /^[A-Za-z0-9\-._/@^+]+$/.test(msg) ? msg : JSON.stringify(msg)
  return `time="${new Date().toISOString().slice(0, 19)}Z" level=${level} msg=${quoted}\n`
}

function jsonLine({ level, msg }: Line): string {
  return `${JSON.stringify({ '@message': msg, '@timestamp': new Date().toISOString(), level })}\n`
}
