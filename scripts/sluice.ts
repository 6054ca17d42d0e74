/**
 * The command line: `sluice <command>`. Each command is a module that is loaded when used.
 */
import { readFileSync } from 'node:fs'
import { ConfigurationError } from '../engine/runtime/errors.ts'
import { resolveRoot } from '../engine/runtime/module-url.ts'

const COMMANDS: Record<string, () => Promise<(args: string[]) => Promise<number>>> = {
  serve: async () => (await import('./commands/serve.ts')).serve,
  monitor: async () => (await import('./commands/monitor.ts')).monitor,
  client: async () => (await import('./commands/client.ts')).client,
  'check-config': async () => (await import('./commands/check-config.ts')).checkConfig,
}

/** Runs one command and returns the exit code. */
async function main([name = '', ...args]: string[]): Promise<number> {
  if (['', 'help', '-h', '--help', '-help'].includes(name)) {
    process.stdout.write(usage())
    return name === '' ? 2 : 0
  }
  if (/^--?v(ersion)?$/.test(name)) {
    const { version } = JSON.parse(readFileSync(resolveRoot('package.json'), 'utf8'))
    process.stdout.write(`${version}\n`)
    return 0
  }
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!load) {
    process.stderr.write(`sluice: there is no command "${name}".\n\n${usage()}`)
    return 2
  }
  try {
    return await (await load())(args)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error // a bug: the stack trace is the report
    process.stderr.write(`sluice: ${error.message}\n`)
    return error.exitCode
  }
}

/** Shared with the launcher, which prints it where the sources cannot run. */
function usage(): string {
  return readFileSync(resolveRoot('scripts/usage.txt'), 'utf8')
}

// Read once, when uWebSockets.js is loaded: header blocks up to 16 KiB instead of 4 (spec of the monitor, 1.2).
process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'
process.exitCode = await main(process.argv.slice(2))
