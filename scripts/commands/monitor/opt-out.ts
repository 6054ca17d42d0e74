/** Hosts that are neither probed nor listed (spec 5): optout.yaml, beside the catalogue. */
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { addOptOut, parseHost, removeOptOut } from '../../../monitor/catalogue/opt-out.ts'
import { hasSuffix } from '../../../monitor/egress/url-policy.ts'
import type { MonitorOptions } from '../../../monitor/service/options.ts'
import { type Command, JSON_OPTION, Mistakes, UsageError } from './command.ts'
import { createContext, readCatalogue, readOptOuts } from './context.ts'
import { note, print, printJson } from './output.ts'

export const add: Command = {
  usage: `optout add <host>

Adds a host: it and its subdomains are neither probed nor listed, and submissions of them get 422. A running monitor applies
the change within 2 s.
`,
  operands: [1, 1],
  run({ operands: [text] }) {
    const host = checkedHost(text)
    if (!host.includes('.')) throw new UsageError(`"${host}" would opt out everything below it.`)
    const { settings, options } = createContext()
    const { path } = readOptOuts(settings.CATALOGUE_PATH)
    const isNew = addOptOut(path, host)
    note(isNew ? `${host} has opted out (${path})` : `${host} had already opted out`)
    printEffect(settings.CATALOGUE_PATH, options)
    return 0
  },
}

export const remove: Command = {
  usage: `optout remove <host>

Removes a host from the list. A listed parent domain, such as example.com for www.example.com, stays in force.
`,
  operands: [1, 1],
  run({ operands: [text] }) {
    const host = checkedHost(text)
    const { settings, options } = createContext()
    const { path, hosts } = readOptOuts(settings.CATALOGUE_PATH)
    if (!removeOptOut(path, host)) throw notListed(path, host, hosts)
    hosts.delete(host)
    note(`${host} is removed from the list (${path})`)
    const above = findCovering(host, hosts)
    if (above) note(`but ${above} still opts it out`)
    printEffect(settings.CATALOGUE_PATH, options)
    return 0
  },
}

export const list: Command = {
  usage: `optout list [--json]

Lists the hosts, one per line, sorted by name.
`,
  options: JSON_OPTION,
  run({ has }) {
    const { hosts } = readOptOuts(createContext().settings.CATALOGUE_PATH)
    const sorted = [...hosts].sort()
    if (has('json')) printJson(sorted)
    else for (const host of sorted) print(host)
    return 0
  },
}

/** The monitor loads catalogue and opt-outs together, so an error in the catalogue also delays this change. */
function printEffect(cataloguePath: string, options: MonitorOptions): void {
  try {
    const { entries, isOptedOut } = readCatalogue(cataloguePath, options)
    for (const entry of entries.filter(isOptedOut)) note(`left out: ${entry.slug}, ${entry.url}`)
  } catch (error) {
    if (!(error instanceof Mistakes)) throw error
    throw new Mistakes([
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
