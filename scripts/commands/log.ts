/**
 * The log of the process, in the two line formats of envoyproxy/ratelimit (spec 11.1).
 *
 *     text   time="2026-11-20T11:00:00+01:00" level=warning msg="Listening for HTTP on '0.0.0.0:8080'"
 *     json   {"@message":"Listening for HTTP on '0.0.0.0:8080'","@timestamp":"2026-11-20T11:00:00.123+01:00","level":"warning"}
 *
 * Fields follow the message, as ` route=/api/v1/sites status=200` or as members. Only the main thread writes; other threads
 * send it their lines. Nothing is logged per decision; the monitor logs its requests at level info. `fatal` is for the reason
 * why the process ends; no LOG_LEVEL hides it.
 *
 * pino provides the levels and the destination. Its serializer is not used: it begins each line with the level, and the spec
 * with the message.
 */
import pino from 'pino'
import type { Log, LogFields, LogLevel } from '../../engine/runtime/messages.ts'

/** The part of pino's destinations that is needed. */
export interface LogDestination {
  write(line: string): unknown
}

const UNWRITTEN_BYTES_MAX = 256 * 1024 // lines that cannot be written yet; beyond, they are dropped

/** Standard error. Synchronous, so that no line is lost when the process ends. */
export function openStandardError(): LogDestination {
  const stderr = pino.destination({ dest: 2, sync: true, maxLength: UNWRITTEN_BYTES_MAX })
  stderr.on('error', () => {}) // a full disk must not end the process; lines are written when there is space again
  return stderr
}

/** pino's names for the spec's level names. */
const LEVELS: Record<string, string> = { warning: 'warn', panic: 'fatal' }

/** `level` is any name of spec 11.1 in any case, `format` is `json` in any case or anything else for text. */
export function createLog(level: string, format: string, destination: LogDestination): Log {
  const levelMin = toSeverity(level.toLowerCase())
  const toLine = format.toLowerCase() === 'json' ? toJsonLine : toTextLine
  return (lineLevel, message, fields) => {
    if (toSeverity(lineLevel) >= levelMin) destination.write(toLine(lineLevel, message, fields))
  }
}

function toSeverity(level: string): number {
  return pino.levels.values[LEVELS[level] ?? level]
}

function toTextLine(level: LogLevel, message: string, fields?: LogFields): string {
  const { seconds, zone } = localTime()
  let line = `time="${seconds}${zone}" level=${level} msg=${quote(message)}`
  for (const name in fields) line += ` ${name}=${quote(String(fields[name]))}`
  return `${line}\n`
}

function toJsonLine(level: LogLevel, message: string, fields?: LogFields): string {
  const { seconds, millis, zone } = localTime()
  const line = { '@message': message, '@timestamp': `${seconds}.${millis}${zone}`, level, ...fields }
  return `${JSON.stringify(line)}\n`
}

/** Now, as RFC 3339 has it: `2026-11-20T11:00:00`, `123` and `+01:00`, or `Z` in UTC. */
function localTime(): { seconds: string; millis: string; zone: string } {
  const now = new Date()
  const eastMin = -now.getTimezoneOffset()
  const wall = new Date(now.getTime() + eastMin * 60_000).toISOString()
  const [hours, minutes] = [Math.trunc(Math.abs(eastMin) / 60), Math.abs(eastMin) % 60]
  const offset = `${eastMin < 0 ? '-' : '+'}${twoDigits(hours)}:${twoDigits(minutes)}`
  return { seconds: wall.slice(0, 19), millis: wall.slice(20, 23), zone: eastMin === 0 ? 'Z' : offset }
}

function twoDigits(count: number): string {
  return String(count).padStart(2, '0')
}

/** Quoted like logrus: bare where unambiguous, otherwise as a Go string literal. */
function quote(text: string): string {
  return BARE.test(text) ? text : `"${text.replace(UNQUOTABLE, escapeChar)}"`
}

const BARE = /^[A-Za-z0-9\-._/@^+]*$/
const UNQUOTABLE = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu // the second part: not printable in Go
const ESCAPES = new Map(
  Object.entries({
    '"': '"',
    '\\': '\\',
    '\x07': 'a',
    '\b': 'b',
    '\f': 'f',
    '\n': 'n',
    '\r': 'r',
    '\t': 't',
    '\v': 'v',
  }),
)

function escapeChar(char: string): string {
  const letter = ESCAPES.get(char)
  if (letter !== undefined) return `\\${letter}`
  const hex = char.codePointAt(0)!.toString(16)
  if (char < '\x80') return `\\x${hex.padStart(2, '0')}`
  return hex.length <= 4 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`
}
