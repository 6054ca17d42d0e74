/** API keys (spec 4.4). A key selects a quota and nothing else; keys are created by this command only. */
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { timestampOrNull } from '../../../monitor/api/site-view.ts'
import { timestamp } from '../../../monitor/scoring/probe-point.ts'
import {
  createApiKey,
  type ListedApiKey,
  listApiKeys,
  revokeApiKey,
} from '../../../monitor/storage/api-keys.ts'
import { UsageError } from '../arguments.ts'
import { note, print, printJson, printTable } from '../output.ts'
import { type Command, JSON_OPTION } from './command.ts'
import { createContext, withDatabase } from './context.ts'

const DEFAULT_TIER = 'partner' // the tier of the built-in rules
const TIER = /^[a-z][a-z0-9_-]{0,31}$/
const NOTE_CHARS_MAX = 200
const DAYS_MAX = 3_650
const DAY_SEC = 86_400

export const create: Command = {
  usage: `keys create [--tier partner] [--note <text>] [--expires <date|days>] [--force] [--json]

Creates an API key and prints it once: only its SHA-256 is stored. A running monitor accepts it within 5 s.

  --tier      its quotas: a tier in the rules of the domain relay_monitor
  --note      free text, such as its owner
  --expires   2027-01-31 (the day begins in UTC), or 90d from now; default: never
  --force     allow a tier that no rule limits: such a key has no limit
`,
  options: {
    ...{ tier: { type: 'string' }, note: { type: 'string' }, expires: { type: 'string' } },
    force: { type: 'boolean' },
    ...JSON_OPTION,
  },
  async run({ text, has }, io) {
    const nowSec = Math.floor(Date.now() / 1_000)
    const tier = checkedTier(text('tier') ?? DEFAULT_TIER)
    const remark = checkedNote(text('note') ?? '')
    const expiresAtSec = text('expires') === undefined ? null : parseExpiry(text('expires')!, nowSec)
    const { settings, path } = createContext(io)
    const { reasonUnlimited } = await import('./rules.ts') // only this command reads rules
    const unlimited = await reasonUnlimited(settings, tier)
    if (unlimited !== null && !has('force')) throw withoutLimit(tier, unlimited)
    const key = await withDatabase(
      path,
      (database) => createApiKey(database, { tier, note: remark, expiresAtSec, nowSec }),
      { isNew: true },
    )
    const expires = expiresAtSec === null ? 'never expires' : `expires ${timestamp(expiresAtSec)}`
    if (unlimited !== null) note(io, `note: tier ${tier}: ${unlimited}`)
    note(io, `key ${key.id}, tier ${tier}, ${expires}. This is the only copy of it:`)
    if (has('json'))
      printJson(io, { id: key.id, key: key.text, tier, expires_at: timestampOrNull(expiresAtSec) })
    else print(io, key.text)
    return 0
  },
}

export const list: Command = {
  usage: `keys list [--json]

Lists all keys, also expired and revoked ones, newest first, without their secrets.
`,
  options: JSON_OPTION,
  async run({ has }, io) {
    const keys = await withDatabase(createContext(io).path, listApiKeys)
    const nowSec = Math.floor(Date.now() / 1_000)
    if (has('json'))
      printJson(
        io,
        keys.map((key) => toView(key, nowSec)),
      )
    else {
      const cells = keys.map((key) => Object.values(toView(key, nowSec)).map((value) => value ?? '-'))
      printTable(io, ['ID', 'TIER', 'STATE', 'CREATED', 'EXPIRES', 'REVOKED', 'NOTE'], cells)
    }
    return 0
  },
}

export const revoke: Command = {
  usage: `keys revoke <id>

Revokes a key permanently. keys list prints the ids. A running monitor refuses it within 5 s.
`,
  operands: [1, 1],
  async run({ operands: [id] }, io) {
    const nowSec = Math.floor(Date.now() / 1_000)
    const { path } = createContext(io)
    const [isRevoked, keys] = await withDatabase(
      path,
      (database) => [revokeApiKey(database, id, nowSec), listApiKeys(database)] as const,
    )
    if (!keys.some((key) => key.id === id)) {
      const fix = 'sluice monitor keys list shows the ids.'
      throw new ConfigurationError({
        code: 'KEY_UNKNOWN',
        where: path,
        what: `there is no key with the id "${id}".`,
        fix,
      })
    }
    note(io, isRevoked ? `key ${id} is revoked` : `key ${id} had been revoked before`)
    return 0
  },
}

/** In the order of the table's columns. */
function toView({ id, tier, note, createdAtSec, expiresAtSec, revokedAtSec }: ListedApiKey, nowSec: number) {
  const isExpired = expiresAtSec !== null && expiresAtSec <= nowSec
  return {
    id,
    tier,
    state: revokedAtSec !== null ? 'revoked' : isExpired ? 'expired' : 'valid',
    created_at: timestamp(createdAtSec),
    expires_at: timestampOrNull(expiresAtSec),
    revoked_at: timestampOrNull(revokedAtSec),
    note,
  }
}

function withoutLimit(tier: string, what: string): ConfigurationError {
  const fix = `Name a tier that has rules ("${DEFAULT_TIER}" is in the built-in ones), add rules, or use --force.`
  return new ConfigurationError({ code: 'KEY_UNLIMITED', where: `tier "${tier}"`, what, fix })
}

function checkedTier(tier: string): string {
  if (TIER.test(tier)) return tier
  throw new UsageError(`--tier "${tier}" is not 1 to 32 of a-z, 0-9, _ and -, a letter first.`)
}

function checkedNote(text: string): string {
  if (text.length <= NOTE_CHARS_MAX && !/\p{Cc}/u.test(text)) return text
  throw new UsageError(`--note is not one line of at most ${NOTE_CHARS_MAX} characters.`)
}

function parseExpiry(text: string, nowSec: number): number {
  const days = /^([1-9][0-9]{0,3})d$/.exec(text)?.[1]
  const atSec = days ? nowSec + Number(days) * DAY_SEC : dayStartSec(text)
  if (atSec === null)
    throw new UsageError(`--expires "${text}" is neither a date like 2027-01-31 nor days like 90d.`)
  if (atSec <= nowSec) throw new UsageError(`--expires ${text} is in the past.`)
  if (atSec > nowSec + DAYS_MAX * DAY_SEC)
    throw new UsageError(`--expires ${text} is more than ${DAYS_MAX} days from now.`)
  return atSec
}

/** Null if the day does not exist: `Date` alone would read February 30 as March 2. */
function dayStartSec(text: string): number | null {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text)) return null
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) || !new Date(atMs).toISOString().startsWith(text) ? null : atMs / 1_000
}
