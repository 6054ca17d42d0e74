/**
 * The process's log: pino on standard error, in the two line formats of the service we replace (spec 11.1).
 *
 *     text   time="2026-11-20T10:00:00Z" level=warning msg="Listening for HTTP on '0.0.0.0:8080'"
 *     json   {"@message":"Listening for HTTP on '0.0.0.0:8080'","@timestamp":"2026-11-20T10:00:00.123Z","level":"warning"}
 *
 * Fields follow the message, ` route=/api/v1/sites status=200` or as members. Only main writes; threads send their lines to
 * it. Nothing is logged per decision; the monitor logs its requests, at level info.
 */
import pino from 'pino'
import type { Log, LogFields } from '../engine/messages.ts'

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
  return (lineLevel, message, fields = {}) => {
    logger[lineLevel === 'warning' ? 'warn' : lineLevel](fields, message)
  }
}

interface Line extends LogFields {
  level: string
  msg: string
}

function textLine({ level, msg, ...fields }: Line): string {
  const time = `time="${new Date().toISOString().slice(0, 19)}Z"`
  const pairs = Object.entries({ level, msg, ...fields }).map(([name, value]) => `${name}=${quoted(value)}`)
  return `${time} ${pairs.join(' ')}\n`
}

function quoted(value: string | number): string {
  const text = String(value)
  return /^[A-Za-z0-9\-._/@^+]+$/.test(text) ? text : JSON.stringify(text)
}

function jsonLine({ level, msg, ...fields }: Line): string {
  return `${JSON.stringify({ '@message': msg, '@timestamp': new Date().toISOString(), level, ...fields })}\n`
}
