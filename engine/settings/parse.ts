/**
 * Environment in, settings out.
 *
 *     { GRPC_PORT: '9090', KVSTORE_URL: 'redis:6379', REDIS_ULR: '…' }
 *        │
 *        ├─► settings   every variable, typed: GRPC_PORT 9090, REDIS_URL 'redis:6379', BACKEND_TYPE 'redis'
 *        ├─► warnings   'REDIS_ULR is not a setting; did you mean REDIS_URL?'
 *        └─► written    GRPC_PORT → GRPC_PORT, REDIS_URL → KVSTORE_URL
 *
 * All mistakes are reported at once. A value that envoyproxy/ratelimit would accept and never use also stops the start.
 */
import { isIP } from 'node:net'
import { ConfigurationError } from '../runtime/errors.ts'
import { impliedStore, type WrittenNames } from './store.ts'
import { families, type Row, type Rows, rows, type SettingName, type Settings } from './table.ts'
import { nearest } from './typos.ts'

export type { Settings } from './table.ts'

/** The key of rule files, in the environment. It is too far from the setting's name for `nearest`. */
const STORE_ERROR_KEY = 'ON_STORE_ERROR'

type Environment = Record<string, string | undefined>

export interface ParsedSettings<S = Settings> {
  settings: S
  warnings: string[]
  written: WrittenNames // every setting given by either name; an empty text gives nothing
}

/** `more`: rows of another table. Throws ConfigurationError with a line for every invalid variable. */
export function parseSettings<More = unknown>(
  env: Environment,
  more: Rows<More> = [],
): ParsedSettings<Settings & More> {
  const allRows: readonly Row[] = [...rows, ...more]
  const values: Record<string, unknown> = {}
  const written = new Map<string, string>()
  const warnings: string[] = []
  const mistakes: string[] = []
  for (const row of allRows) {
    const variable = pick(env, row, warnings)
    if (variable === undefined) {
      values[row.name] = row.kind.parse(row.default)
      continue
    }
    if (variable.text !== '') written.set(row.name, variable.name)
    const { value, mistake } = read(row, variable)
    values[row.name] = value
    if (mistake) mistakes.push(mistake)
    else if (row.state !== 'built' && isRequested(row, value)) {
      if (row.state === 'refuse') mistakes.push(refusal(variable.name))
      else if (row.state === 'inert') warnings.push(`${variable.name} has ${row.help}.`)
      else warnings.push(`${variable.name} has no effect yet in this version.`)
    }
  }
  if (mistakes.length > 0) {
    throw new ConfigurationError({ code: 'SETTING_INVALID', what: mistakes.join('\n'), exitCode: 2 })
  }
  warnings.push(...unknownVariables(env, allRows))
  return {
    settings: Object.freeze(applyDerivedDefaults(values as Settings & More, written)),
    warnings,
    written,
  }
}

interface Variable {
  name: string // as the operator wrote it
  text: string
}

/** The variable that gives a setting. The current name takes precedence over the older one, even when its text is empty. */
function pick(env: Environment, row: Row, warnings: string[]): Variable | undefined {
  const text = env[row.name]
  const olderText = row.older === null ? undefined : env[row.older]
  if (text === undefined) return olderText === undefined ? undefined : { name: row.older!, text: olderText }
  if (olderText !== undefined && olderText !== text) {
    warnings.push(`${row.older} is ignored, because ${row.name} is set too.`)
  }
  return { name: row.name, text }
}

/** The value, or the error text. */
function read(row: Row, { name, text }: Variable): { value?: unknown; mistake?: string } {
  if (text === '' && !row.kind.hasEmpty) return { value: row.kind.parse(row.default) }
  try {
    return { value: row.kind.parse(text) }
  } catch (error) {
    const reason = isSecret(name) ? row.kind.allowed : (error as Error).message
    return {
      mistake: `${name}=${quoted(name, text)} is not allowed: ${reason}.${kubernetesHint(name, text)}`,
    }
  }
}

/** Passwords are not echoed, nor are the headers that authenticate to a management server. */
function isSecret(name: string): boolean {
  return /(_AUTH|TOKEN|_HEADERS)$/.test(name)
}

const QUOTED_LENGTH_MAX = 100 // characters of a value in a message; the value may be a pasted certificate

function quoted(name: string, text: string): string {
  if (isSecret(name)) return '(hidden)'
  return JSON.stringify(text.length > QUOTED_LENGTH_MAX ? `${text.slice(0, QUOTED_LENGTH_MAX)}…` : text)
}

/** For a Service named grpc, debug, statsd or monitor, Kubernetes sets a variable with the name of a setting. */
function kubernetesHint(name: string, text: string): string {
  if (!name.endsWith('_PORT') || !/^(tcp|udp):\/\//.test(text)) return ''
  return ' Kubernetes set it for a Service of that name: set enableServiceLinks: false in the pod, or set the variable.'
}

/** Whether the value requests an effect that the setting does not have. */
function isRequested(row: Row, value: unknown): boolean {
  if (row.kind.name === 'bool') return value === true
  return JSON.stringify(value) !== JSON.stringify(row.kind.parse(row.default))
}

function refusal(name: string): string {
  return `${name} is set, but this version does not support it, and starting without it would not be safe. Unset it.`
}

/** Warnings about unknown variables that are similar to settings. */
function unknownVariables(env: Environment, allRows: readonly Row[]): string[] {
  const known = new Set(allRows.flatMap(({ name, older }) => (older === null ? [name] : [name, older])))
  const warnings: string[] = []
  for (const name of Object.keys(env)) {
    if (env[name] === undefined || known.has(name)) continue
    if (families.some(({ matches }) => matches.test(name))) continue
    const suggestion = name === STORE_ERROR_KEY ? 'STORE_ERROR_POLICY' : nearest(name, known)
    if (suggestion) warnings.push(`${name} is not a setting; did you mean ${suggestion}?`)
  }
  return warnings
}

/** Sets the defaults that depend on which other settings are given. */
function applyDerivedDefaults<S extends Settings>(values: S, written: WrittenNames): S {
  const isGiven = (name: SettingName) => written.has(name)
  const store = impliedStore(written)
  const { REDIS_URL, REDIS_PERSECOND_URL, USE_DOG_STATSD, USE_PROMETHEUS } = values
  return {
    ...values,
    ...(store !== null && { BACKEND_TYPE: store }),
    ...(isAddress(REDIS_URL) && !isGiven('REDIS_SOCKET_TYPE') && { REDIS_SOCKET_TYPE: 'tcp' }),
    ...(isAddress(REDIS_PERSECOND_URL) &&
      !isGiven('REDIS_PERSECOND_SOCKET_TYPE') && { REDIS_PERSECOND_SOCKET_TYPE: 'tcp' }),
    ...operationTimeout('REDIS', values, isGiven),
    ...operationTimeout('REDIS_PERSECOND', values, isGiven),
    ...((USE_DOG_STATSD || USE_PROMETHEUS) && !isGiven('USE_STATSD') && { USE_STATSD: false }),
  }
}

/** REDIS_TIMEOUT also bounds operations if only it is given. 0 means no bound for connecting and is not copied. */
function operationTimeout(
  prefix: 'REDIS' | 'REDIS_PERSECOND',
  values: Settings,
  isGiven: (name: SettingName) => boolean,
): Partial<Settings> {
  const ms = values[`${prefix}_TIMEOUT`]
  if (ms === 0 || !isGiven(`${prefix}_TIMEOUT`) || isGiven(`${prefix}_OPERATION_TIMEOUT`)) return {}
  return { [`${prefix}_OPERATION_TIMEOUT`]: Math.max(ms, OPERATION_MS_MIN) }
}

const OPERATION_MS_MIN = 1 // what REDIS_OPERATION_TIMEOUT itself accepts

/** Whether it is meant as host:port or redis://, and not as the path of a socket. A host without a port is an error later. */
function isAddress(url: string): boolean {
  if (/^rediss?:\/\//.test(url)) return true
  return !url.includes('/') && (url.includes(':') || url === 'localhost' || isIP(url) !== 0)
}
