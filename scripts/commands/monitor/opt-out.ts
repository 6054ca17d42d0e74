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

From now on the host and everything below it is neither probed nor listed, and submissions of it get 422. A running
monitor takes it up within 2 s.
`,
  operands: [1, 1],
  run({ operands: [text] }) {
    const host = checkedHost(text)
    if (!host.includes('.')) throw new UsageError(`"${host}" would opt out everything below it.`)
    const { settings, options } = createContext()
    const { path } = readOptOuts(settings.CATALOGUE_PATH)
    const isNew = addOptOut(path, host)
    note(isNew ? `${host} has opted out (${path})` : `${host} had opted out before`)
    printEffect(settings.CATALOGUE_PATH, options)
    return 0
  },
}

export const remove: Command = {
  usage: `optout remove <host>

Takes the host off the list. What stands there above it, such as example.com above www.example.com, stays in force.
`,
  operands: [1, 1],
  run({ operands: [text] }) {
    const host = checkedHost(text)
    const { settings, options } = createContext()
    const { path, hosts } = readOptOuts(settings.CATALOGUE_PATH)
    if (!removeOptOut(path, host)) throw notListed(path, host, hosts)
    hosts.delete(host)
    note(`${host} is off the list (${path})`)
    const above = findCovering(host, hosts)
    if (above) note(`but still opted out by ${above}`)
    printEffect(settings.CATALOGUE_PATH, options)
    return 0
  },
}

export const list: Command = {
  usage: `optout list [--json]

The hosts, one per line, by name.
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

/** The monitor takes catalogue and opt-outs as one whole, so a mistake in the catalogue keeps this list from it, too. */
function printEffect(cataloguePath: string, options: MonitorOptions): void {
  try {
    const { entries, isOptedOut } = readCatalogue(cataloguePath, options)
    for (const entry of entries.filter(isOptedOut)) note(`left out: ${entry.slug}, ${entry.url}`)
  } catch (error) {
    if (!(error instanceof Mistakes)) throw error
    throw new Mistakes(['it comes into force once the catalogue is mended:', ...error.lines])
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
    ? `${host} does not stand there, but ${above} above it does.`
    : `${host} does not stand there.`
  const fix = above ? `Remove ${above}, or leave it.` : 'sluice monitor optout list shows what does.'
  return new ConfigurationError({ code: 'OPT_OUT_MISSING', where: path, what, fix })
}

/** Which of `hosts` covers `host`. */
function findCovering(host: string, hosts: ReadonlySet<string>): string | undefined {
  return [...hosts].find((known) => hasSuffix(host, new Set([known])))
}
