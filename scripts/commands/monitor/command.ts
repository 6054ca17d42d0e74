/**
 * The shape of a command of `sluice monitor`, and the parser of its arguments.
 *
 *     ['--tier', 'gold', '--json'] ──► operands []  text('tier') 'gold'  has('json') true
 *                                  └─► invalid: UsageError, exit code 2, with the usage of this command
 */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { Io } from '../io.ts'

export interface Command {
  usage: string // follows `usage: sluice monitor `: arguments, then a description of a few lines
  options?: NonNullable<ParseArgsConfig['options']>
  operands?: readonly [min: number, max: number] // default: none
  /** Returns the exit code. */
  run(args: CommandArguments, io: Io): Promise<number> | number
}

export interface CommandArguments {
  operands: string[]
  has(name: string): boolean
  text(name: string): string | undefined
}

/** An invalid argument; printed above the usage. */
export class UsageError extends Error {}

/** Errors in the operator's files, printed one per line as they are: editors find `file:line:`. Exit code 1. */
export class DiagnosticsError extends Error {
  readonly lines: readonly string[]

  constructor(lines: readonly string[]) {
    super(lines.join('\n'))
    this.lines = lines
  }
}

export const JSON_OPTION = { json: { type: 'boolean' } } as const

export function parseArguments(
  { options = {}, operands: [min, max] = [0, 0] }: Command,
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
