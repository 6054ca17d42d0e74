/**
 * Errors for the person who reads them at night: what happened, where exactly, how to fix it, a code to search for.
 * "Over limit" is none of these: it is an answer.
 */

export interface ErrorDetails {
  code: string // UPPER_SNAKE, to search for
  what: string // one sentence
  where?: string // file:line, variable, address
  fix?: string // one sentence that tells the reader what to do
  exitCode?: number // of a process that ends because of it; default 1
}

/** Something a person has to mend: settings, configuration, a port in use. Prints `where: what fix [code]`. */
export class ConfigurationError extends Error {
  readonly code: string
  readonly exitCode: number

  constructor({ code, what, where, fix, exitCode = 1 }: ErrorDetails, options?: ErrorOptions) {
    super([where && `${where}:`, what, fix, `[${code}]`].filter(Boolean).join(' '), options)
    this.name = 'OperatorError'
    this.code = code
    this.exitCode = exitCode
  }
}

/**
 * The text to log: the message alone where it ends with the code of an OperatorError, else with the stack. Errors from other
 * threads have lost their class, so only the message can tell.
 */
export function toLogText(error: Error): string {
  return /\[[A-Z][A-Z_]{2,63}\]$/.test(error.message) ? error.message : (error.stack ?? error.message)
}

/** The caller's request cannot be decided (spec 5.4); counted as `service_error`. The message goes on the wire. */
export class ServiceError extends Error {
  override name = 'ServiceError'
}

/** The counter store did not confirm the hit (spec 5.4); counted as `redis_error`. The message goes on the wire. */
export class StoreError extends Error {
  override name = 'StoreError'
}
