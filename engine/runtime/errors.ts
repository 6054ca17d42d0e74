/**
 * Errors that state what happened, where, how to fix it, and a code to search for. "Over limit" is a decision, not an
 * error.
 */

export interface ErrorDetails {
  code: string // UPPER_SNAKE, to search for
  what: string // one sentence
  where?: string // file:line, variable, address
  fix?: string // one sentence
  exitCode?: number // of a process that ends because of it; default 1
}

/** A problem that the operator must fix: settings, configuration, a port in use. Prints `where: what fix [code]`. */
export class ConfigurationError extends Error {
  readonly code: string
  readonly exitCode: number

  constructor({ code, what, where, fix, exitCode = 1 }: ErrorDetails, options?: ErrorOptions) {
    super([where && `${where}:`, what, fix, `[${code}]`].filter(Boolean).join(' '), options)
    this.name = 'ConfigurationError'
    this.code = code
    this.exitCode = exitCode
  }
}

/**
 * The text to log: the message alone if it ends with the code of a ConfigurationError, else with the stack. Errors from
 * other threads have lost their class, so the message decides.
 */
export function toLogText(error: Error): string {
  return /\[[A-Z][A-Z_]{2,63}\]$/.test(error.message) ? error.message : (error.stack ?? error.message)
}

/** The request cannot be decided (spec 5.4); counted as `service_error`. The message is sent to the client. */
export class ServiceError extends Error {
  override name = 'ServiceError'
}

/** The counter store did not confirm the hit (spec 5.4); counted as `redis_error`. The message is sent to the client. */
export class StoreError extends Error {
  override name = 'StoreError'
  /** The hit was sent, and whether it was counted is not known. */
  readonly isUnknown: boolean

  constructor(message: string, isUnknown = false) {
    super(message)
    this.isUnknown = isUnknown
  }
}
