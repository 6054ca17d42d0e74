/** The shape of a command of `sluice monitor`. */
import type { ArgumentRules, CommandArguments } from '../arguments.ts'
import type { Io } from '../io.ts'

export interface Command extends ArgumentRules {
  usage: string // follows `usage: sluice monitor `: arguments, then a description of a few lines
  /** Returns the exit code. */
  run(args: CommandArguments, io: Io): Promise<number> | number
}

/** Errors in the operator's files, printed one per line as they are: editors find `file:line:`. Exit code 1. */
export class DiagnosticsError extends Error {
  readonly lines: readonly string[]

  constructor(lines: readonly string[]) {
    super(lines.join('\n'))
    this.lines = lines
  }
}

export const JSON_OPTION = { json: { type: 'boolean' } } as const
