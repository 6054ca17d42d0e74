/** Hosts that are neither probed nor listed (spec 5): optout.yaml, beside the catalogue. */
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { addOptOut, parseHost, removeOptOut } from '../../../monitor/catalogue/opt-out.ts'
import { hasSuffix } from '../../../monitor/egress/url-policy.ts'
import type { MonitorOptions } from '../../../monitor/service/options.ts'
import { UsageError } from '../arguments.ts'
import type { Io } from '../io.ts'
import { note, print, printJson } from '../output.ts'
import { type Command, DiagnosticsError, JSON_OPTION } from './command.ts'
import { createContext, readCatalogue, readOptOuts } from './context.ts'

export const add: Command = {
  usage: `optout add <host>

Adds a host: it and its subdomains are neither probed nor listed, and submissions of them get 422. A running monitor applies
the change within 2 s.
`,
  operands: [1, 1],
  run({ operands: [text] }, io) {
    const host = checkedHost(text)
    if (!host.includes('.')) throw new UsageError(`"${host}" would opt out everything below it.`)
    const { settings, options } = createContext(io)
    const { path } = readOptOuts(settings.CATALOGUE_PATH)
    const isNew = addOptOut(path, host)
    note(io, isNew ? `${host} has opted out (${path})` : `${host} had already opted out`)
    noteEffect(settings.CATALOGUE_PATH, options, io)
    return 0
  },
}

export const remove: Command = {
  usage: `optout remove <host>

Removes a host from the list. A listed parent domain, such as example.com for www.example.com, stays in force.
`,
  operands: [1, 1],
  run({ operands: [text] }, io) {
    const host = checkedHost(text)
    const { settings, options } = createContext(io)
    const { path, hosts } = readOptOuts(settings.CATALOGUE_PATH)
    if (!removeOptOut(path, host)) throw notListed(path, host, hosts)
    hosts.delete(host)
    note(io, `${host} is removed from the list (${path})`)
    const above = findCovering(host, hosts)
    if (above) note(io, `but ${above} still opts it out`)
    noteEffect(settings.CATALOGUE_PATH, options, io)
    return 0
  },
}

export const list: Command = {
  usage: `optout list [--json]

Lists the hosts, one per line, sorted by name.
`,
  options: JSON_OPTION,
  run({ has }, io) {
    const { hosts } = readOptOuts(createContext(io).settings.CATALOGUE_PATH)
    const sorted = [...hosts].sort()
    if (has('json')) printJson(io, sorted)
    else for (const host of sorted) print(io, host)
    return 0
  },
}

/** The monitor loads catalogue and opt-outs together, so an error in the catalogue also delays this change. */
function noteEffect(cataloguePath: string, options: MonitorOptions, io: Io): void {
  try {
    const { entries, isOptedOut } = readCatalogue(cataloguePath, options)
    for (const entry of entries.filter(isOptedOut)) note(io, `left out: ${entry.slug}, ${entry.url}`)
  } catch (error) {
    if (!(error instanceof DiagnosticsError)) throw error
    throw new DiagnosticsError([
      'the change takes effect once these errors of the catalogue are fixed:',
      ...error.lines,
    ])
  }
}

function checkedHost(text: string): string {
  const host = parseHost(text)
  if (host !== null) return host
  throw new UsageError(
    `"${text}" is not a host. Write a name such as example.com, without scheme, port and path.`,
  )
}

function notListed(path: string, host: string, hosts: ReadonlySet<string>): ConfigurationError {
  const above = findCovering(host, hosts)
  const what = above
    ? `${host} is not in the list, but its parent ${above} is.`
    : `${host} is not in the list.`
  const fix = above ? `Remove ${above} instead.` : 'sluice monitor optout list shows the hosts.'
  return new ConfigurationError({ code: 'OPT_OUT_MISSING', where: path, what, fix })
}

function findCovering(host: string, hosts: ReadonlySet<string>): string | undefined {
  return [...hosts].find((known) => hasSuffix(host, new Set([known])))
}
