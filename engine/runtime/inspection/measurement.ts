import type { Diagnostic } from './messages.ts'

/** A measurement in progress. Exactly one of the two methods is called, once. */
export interface Measurement<T = unknown> {
  end(): Promise<T>
  cancel(): void
}

/** Lines that only the thread itself can report, such as its connections. */
export type GetDiagnostics = () => Promise<Diagnostic[]> | Diagnostic[]
