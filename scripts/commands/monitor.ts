/**
 * `sluice monitor`: runs the monitor alone, or one of the operator's commands (spec 8.1).
 *
 *     sluice monitor ──► runs                    sluice monitor keys create ──► monitor/keys.ts
 *                                                            └── works on the database and catalogue; a running
 *                                                                monitor picks up each change
 * Exit codes: 0 done, 1 failed, 2 wrong usage.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { parseArguments, UsageError, wantsHelp } from './arguments.ts'
import type { Io } from './io.ts'
import { type Command, DiagnosticsError } from './monitor/command.ts'
import { note } from './output.ts'

const USAGE = `usage: sluice monitor [<command>]

Without a command: runs the monitor alone. Settings come from the environment; CATALOGUE_PATH names the sites,
MONITOR_DATA_DIR the folder of the database, sluice serve --help lists them all.

  validate [<path>]               check the catalogue and the opt-outs
  import <file> [--dry-run]       add and change sites from a .csv, .json or .yaml
  export [--format <format>]      write the sites as yaml, json or csv
  list [--json]                   list the sites with tier, score and state
  optout add|remove|list          hosts that are neither probed nor listed

  probe <slug|url> [--full]       probe once and print the result
  screenshot <slug>               take a screenshot of a site now
  recompute                       evaluate all sites again

  keys create|list|revoke         API keys, which have quotas of their own
  vantage create|list|revoke      agents that probe from elsewhere, and their tokens
  agent                           run an agent: probe from this machine, report to AGENT_SERVER

  asn install <file>              install the table of networks (ASN_DB)
  backup <file>                   copy the database, also while the monitor runs
  prune                           delete data past its retention
  openapi                         print the API's OpenAPI document

sluice monitor <command> --help describes a command. Exit codes: 0 done, 1 failed, 2 wrong usage.
`

const COMMANDS: Record<string, () => Promise<Command>> = {
  validate: async () => (await import('./monitor/catalogue.ts')).validate,
  import: async () => (await import('./monitor/catalogue.ts')).importFile,
  export: async () => (await import('./monitor/catalogue.ts')).exportAll,
  list: async () => (await import('./monitor/catalogue.ts')).list,
  'optout add': async () => (await import('./monitor/opt-out.ts')).add,
  'optout remove': async () => (await import('./monitor/opt-out.ts')).remove,
  'optout list': async () => (await import('./monitor/opt-out.ts')).list,
  probe: async () => (await import('./monitor/probe.ts')).probe,
  screenshot: async () => (await import('./monitor/screenshot.ts')).screenshot,
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

/** Returns the exit code. */
export async function monitor(args: string[], io: Io): Promise<number> {
  if (args.length === 0) return (await import('./monitor-run.ts')).runMonitor(io)
  const nameLength = GROUPS.includes(args[0]) ? 2 : 1
  const name = args.slice(0, nameLength).join(' ')
  const rest = args.slice(nameLength)
  if (
    args[0] === 'help' ||
    wantsHelp(args.slice(0, nameLength)) ||
    (nameLength === 2 && args[1] === 'help')
  ) {
    io.stdout.write(USAGE)
    return 0
  }
  if (!Object.hasOwn(COMMANDS, name)) {
    const what = GROUPS.includes(name)
      ? `${name}: a subcommand is missing.`
      : `there is no command "${name}".`
    io.stderr.write(`sluice monitor: ${what}\n\n${USAGE}`)
    return 2
  }
  return runCommand(name, await COMMANDS[name](), rest, io)
}

async function runCommand(name: string, command: Command, args: string[], io: Io): Promise<number> {
  if (wantsHelp(args)) {
    io.stdout.write(`usage: sluice monitor ${command.usage}`)
    return 0
  }
  try {
    return await command.run(parseArguments(command, args), io)
  } catch (error) {
    if (error instanceof UsageError) {
      io.stderr.write(`sluice monitor ${name}: ${error.message}\n\nusage: sluice monitor ${command.usage}`)
      return 2
    }
    if (!(error instanceof DiagnosticsError)) throw toConfigurationError(error)
    for (const line of error.lines) note(io, line)
    return 1
  }
}

/** Errors of files and of the database become a message without a stack trace; others are defects and stay as they are. */
function toConfigurationError(error: unknown): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException
  if (code === 'ERR_SQLITE_ERROR') {
    const fix =
      'Try again; if it persists, check the disk and the permissions of the files in MONITOR_DATA_DIR.'
    return new ConfigurationError(
      { code: 'STORE_FAILED', where: 'the database', what: `${message}.`, fix },
      { cause: error },
    )
  }
  if (syscall === undefined) return error
  const fix = 'Check the path and its permissions.'
  return new ConfigurationError({ code: 'FILE_UNUSABLE', what: `${message}.`, fix }, { cause: error })
}
