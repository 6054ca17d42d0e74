/**
 * `sluice monitor`: the monitor alone, and the operator's commands beside it (spec 8.1).
 *
 *     sluice monitor ──► runs                    sluice monitor keys create ──► monitor/keys.ts
 *                                                            └── database, catalogue: the files of a running monitor,
 *                                                                which sees every change by itself
 * Exit codes: 0 done, 1 failed, 2 wrong usage.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { type Command, Mistakes, read, UsageError } from './monitor/command.ts'
import { note } from './monitor/output.ts'

const USAGE = `usage: sluice monitor [<command>]

Without a command: runs the monitor alone. Settings come from the environment; CATALOGUE_PATH names the sites,
MONITOR_DATA_DIR the folder of the database, sluice serve --help lists them all.

  validate [<path>]               check the catalogue and the opt-outs
  import <file> [--dry-run]       add and change sites from a .csv, .json or .yaml
  export [--format <format>]      write the sites as yaml, json or csv
  list [--json]                   the sites and how they stand
  optout add|remove|list          hosts that are neither probed nor listed

  probe <slug|url> [--full]       look once, now, and print what was found
  recompute                       judge all sites anew, now

  keys create|list|revoke         API keys, which have quotas of their own
  vantage create|list|revoke      agents that probe from elsewhere, and their tokens
  agent                           be such an agent: probe from here, report to AGENT_SERVER

  asn install <file>              the table that tells whose network an address is in
  backup <file>                   copy the database, also while the monitor runs
  prune                           forget now what is past its time
  openapi                         print the API's OpenAPI document

sluice monitor <command> --help tells more. Exit codes: 0 done, 1 failed, 2 wrong usage.
`

const COMMANDS: Record<string, () => Promise<Command>> = {
  validate: async () => (await import('./monitor/catalogue.ts')).validate,
  import: async () => (await import('./monitor/catalogue.ts')).importing,
  export: async () => (await import('./monitor/catalogue.ts')).exporting,
  list: async () => (await import('./monitor/catalogue.ts')).list,
  'optout add': async () => (await import('./monitor/opt-out.ts')).add,
  'optout remove': async () => (await import('./monitor/opt-out.ts')).remove,
  'optout list': async () => (await import('./monitor/opt-out.ts')).list,
  probe: async () => (await import('./monitor/probe.ts')).probe,
  'keys create': async () => (await import('./monitor/keys.ts')).create,
  'keys list': async () => (await import('./monitor/keys.ts')).list,
  'keys revoke': async () => (await import('./monitor/keys.ts')).revoke,
  'vantage create': async () => (await import('./monitor/vantages.ts')).create,
  'vantage list': async () => (await import('./monitor/vantages.ts')).list,
  'vantage revoke': async () => (await import('./monitor/vantages.ts')).revoke,
  agent: async () => (await import('./monitor/agent.ts')).agent,
  'asn install': async () => (await import('./monitor/asn.ts')).install,
  backup: async () => (await import('./monitor/maintenance.ts')).backup,
  prune: async () => (await import('./monitor/maintenance.ts')).prune,
  recompute: async () => (await import('./monitor/maintenance.ts')).recompute,
  openapi: async () => (await import('./monitor/openapi.ts')).openapi,
}
const GROUPS = ['optout', 'keys', 'vantage', 'asn']
const HELP = ['help', '--help', '-help', '-h']

/** Returns the exit code. */
export async function monitor(args: string[]): Promise<number> {
  quietExperiments()
  if (args.length === 0) return (await import('./monitor-run.ts')).runMonitor()
  const wordsCount = GROUPS.includes(args[0]) ? 2 : 1
  const name = args.slice(0, wordsCount).join(' ')
  const rest = args.slice(wordsCount)
  if (HELP.includes(args[0]) || (wordsCount === 2 && HELP.includes(args[1]))) {
    process.stdout.write(USAGE)
    return 0
  }
  if (!Object.hasOwn(COMMANDS, name)) {
    const what = GROUPS.includes(name) ? `${name}: what to do with them?` : `there is no command "${name}".`
    process.stderr.write(`sluice monitor: ${what}\n\n${USAGE}`)
    return 2
  }
  process.stdout.on('error', leaveQuietly)
  return run(name, await COMMANDS[name](), rest)
}

async function run(name: string, command: Command, args: string[]): Promise<number> {
  if (args.some((arg) => HELP.slice(1).includes(arg))) {
    process.stdout.write(`usage: sluice monitor ${command.usage}`)
    return 0
  }
  try {
    return await command.run(read(command, args))
  } catch (error) {
    if (error instanceof UsageError) {
      process.stderr.write(
        `sluice monitor ${name}: ${error.message}\n\nusage: sluice monitor ${command.usage}`,
      )
      return 2
    }
    if (!(error instanceof Mistakes)) throw ofTheWorld(error)
    for (const line of error.lines) note(line)
    return 1
  }
}

/** Files and the database fail by their own: a sentence, no stack trace. Anything else is a defect and stays as it is. */
function ofTheWorld(error: unknown): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException
  if (code === 'ERR_SQLITE_ERROR') {
    const fix =
      'Try again; if it stays so, look at the disk, and at the rights of the files in MONITOR_DATA_DIR.'
    return new ConfigurationError(
      { code: 'STORE_FAILED', where: 'the database', what: `${message}.`, fix },
      { cause: error },
    )
  }
  if (syscall === undefined) return error
  const fix = 'Check the path and its rights.'
  return new ConfigurationError({ code: 'FILE_UNUSABLE', what: `${message}.`, fix }, { cause: error })
}

/** `sluice monitor export | head -1`: whoever reads has enough. */
function leaveQuietly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
}

/** node:sqlite says once per process that it is experimental in Node 22; nobody who runs a command can act on it. */
function quietExperiments(): void {
  const listeners = process.listeners('warning')
  process.removeAllListeners('warning')
  process.on('warning', (warning) => {
    if (warning.name !== 'ExperimentalWarning') for (const listener of listeners) listener(warning)
  })
}
