/** Vantages besides the server itself, and the tokens of their agents (spec 6.5). */
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { timestampOrNull } from '../../../monitor/api/site-view.ts'
import type { Region } from '../../../monitor/facts.ts'
import {
  createVantage,
  type ListedVantage,
  listVantages,
  revokeVantage,
} from '../../../monitor/storage/vantages.ts'
import { UsageError } from '../arguments.ts'
import { note, print, printJson, printTable } from '../output.ts'
import { type Command, JSON_OPTION } from './command.ts'
import { createContext, withDatabase } from './context.ts'

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/ // as VANTAGE_NAME
const COUNTRY = /^[A-Z]{2}$/

export const create: Command = {
  usage: `vantage create <name> --region cn|overseas [--country <two letters>] [--json]

Creates a vantage and prints the token of its agent once: only its SHA-256 is stored. The name of a revoked vantage can be
used again; it keeps its history and gets a new token. A running monitor accepts the token within 5 s.
`,
  operands: [1, 1],
  options: { region: { type: 'string' }, country: { type: 'string' }, ...JSON_OPTION },
  async run({ operands: [name], text, has }, io) {
    const [region, country] = [text('region'), text('country') ?? null]
    if (!NAME.test(name))
      throw new UsageError(`"${name}" is not 1 to 63 of a-z, 0-9 and -, as a vantage's name is.`)
    if (region !== 'cn' && region !== 'overseas')
      throw new UsageError('--region is cn or overseas, and has no default.')
    if (country !== null && !COUNTRY.test(country))
      throw new UsageError(`--country "${country}" is not two capital letters, such as DE.`)
    const { path, settings } = createContext(io)
    checkIsNotOwn(name, settings.VANTAGE_NAME)
    const input = { name, region: region as Region, country }
    const token = await withDatabase(path, (database) => createVantage(database, input), { isNew: true })
    note(
      io,
      `vantage ${name}, ${[region, country].filter(Boolean).join(', ')}. This is the only copy of its token:`,
    )
    if (has('json')) printJson(io, { ...input, token })
    else print(io, token)
    return 0
  },
}

export const list: Command = {
  usage: `vantage list [--json]

Lists all vantages by name, without tokens. State "own": the server itself, under its present name or an earlier one.
`,
  options: JSON_OPTION,
  async run({ has }, io) {
    const views = (await withDatabase(createContext(io).path, listVantages)).map(toView)
    if (has('json')) printJson(io, views)
    else {
      const cells = views.map((view) => Object.values(view).map((value) => value ?? '-'))
      printTable(io, ['NAME', 'STATE', 'REGION', 'COUNTRY', 'LAST SEEN', 'REVOKED'], cells)
    }
    return 0
  },
}

export const revoke: Command = {
  usage: `vantage revoke <name>

Revokes the vantage and its token. Its measurements are kept.
`,
  operands: [1, 1],
  async run({ operands: [name] }, io) {
    const nowSec = Math.floor(Date.now() / 1_000)
    const { path, settings } = createContext(io)
    checkIsNotOwn(name, settings.VANTAGE_NAME)
    const [isRevoked, vantages] = await withDatabase(
      path,
      (database) => [revokeVantage(database, name, nowSec), listVantages(database)] as const,
    )
    if (!vantages.some((vantage) => vantage.name === name)) {
      const fix = 'sluice monitor vantage list shows the names.'
      throw new ConfigurationError({
        code: 'VANTAGE_UNKNOWN',
        where: path,
        what: `there is no vantage "${name}".`,
        fix,
      })
    }
    note(io, isRevoked ? `vantage ${name} is revoked` : `vantage ${name} had been revoked before`)
    return 0
  },
}

function checkIsNotOwn(name: string, own: string): void {
  if (name !== own) return
  throw new ConfigurationError({
    code: 'VANTAGE_OWN',
    where: `vantage "${name}"`,
    what: 'is the server itself (VANTAGE_NAME) and has no token.',
    fix: 'Choose another name, or set PROBER_ENABLED=false if the server should not probe.',
  })
}

/** In the order of the table's columns. */
function toView({ name, region, country, hasToken, lastSeenSec, revokedAtSec }: ListedVantage) {
  return {
    name,
    state: revokedAtSec !== null ? 'revoked' : hasToken ? 'agent' : 'own',
    region,
    country,
    last_seen: timestampOrNull(lastSeenSec),
    revoked_at: timestampOrNull(revokedAtSec),
  }
}
