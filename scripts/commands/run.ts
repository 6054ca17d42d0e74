/** `sluice <command>`: runs one command. Each command is a module that is loaded when it is used. */
import { readFileSync } from 'node:fs'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { resolveRoot } from '../../engine/runtime/module-url.ts'
import { VERSION } from '../../engine/runtime/version.ts'
import type { Io } from './io.ts'

type Run = (args: string[], io: Io) => Promise<number>

const COMMANDS: Record<string, () => Promise<Run>> = {
  serve: async () => (await import('./serve.ts')).serve,
  monitor: async () => (await import('./monitor.ts')).monitor,
  client: async () => (await import('./client.ts')).client,
  'check-config': async () => (await import('./check-config.ts')).checkConfig,
}

/** Returns the exit code. Throws only for a defect, whose stack trace is the report. */
export async function run([name = '', ...args]: string[], io: Io): Promise<number> {
  if (['', 'help', '-h', '--help', '-help'].includes(name)) {
    io.stdout.write(readUsage())
    return name === '' ? 2 : 0
  }
  if (/^--?v(ersion)?$/.test(name)) {
    io.stdout.write(`${VERSION}\n`)
    return 0
  }
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!load) {
    io.stderr.write(`sluice: there is no command "${name}".\n\n${readUsage()}`)
    return 2
  }
  try {
    const runCommand = await load()
    return await runCommand(args, io)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    io.stderr.write(`sluice: ${error.message}\n`)
    return error.exitCode
  }
}

/** The file is shared with the launcher, which prints it where the sources cannot run. */
function readUsage(): string {
  return readFileSync(resolveRoot('scripts/usage.txt'), 'utf8')
}
