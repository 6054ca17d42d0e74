/**
 * Options and operands of a command, read by `util.parseArgs`.
 *
 *     ['--tier', 'gold', '--json'] ──► operands []  text('tier') 'gold'  has('json') true
 *                                  └─► invalid: UsageError, exit code 2, printed above the usage of the command
 */
import { type ParseArgsConfig, parseArgs } from 'node:util'

export interface ArgumentRules {
  options?: NonNullable<ParseArgsConfig['options']>
  operands?: readonly [min: number, max: number] // default: none
}

export interface CommandArguments {
  operands: string[]
  has(name: string): boolean
  text(name: string): string | undefined
}

/** An invalid argument; printed above the usage. */
export class UsageError extends Error {}

const HELP = ['--help', '-help', '-h']

export function wantsHelp(args: readonly string[]): boolean {
  return args.some((arg) => HELP.includes(arg))
}

export function parseArguments(
  { options = {}, operands: [min, max] = [0, 0] }: ArgumentRules,
  args: string[],
): CommandArguments {
  const { values, positionals } = parse(args, options)
  if (positionals.length < min) throw new UsageError('an argument is missing.')
  if (positionals.length > max) throw new UsageError(`"${positionals[max]}" is one argument too many.`)
  return {
    operands: positionals,
    has: (name) => values[name] === true,
    text: (name) => values[name] as string | undefined,
  }
}

function parse(args: string[], options: NonNullable<ParseArgsConfig['options']>) {
  try {
    return parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!code?.startsWith('ERR_PARSE_ARGS_')) throw error
    throw new UsageError(message.split('. ')[0].replace(/\.?$/, '.')) // the rest is advice on file names like -x
  }
}
