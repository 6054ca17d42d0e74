/** The invariants that were broken, each with its first examples. */
export type Invariant =
  | 'admitted'
  | 'room'
  | 'remaining'
  | 'once'
  | 'flagged'
  | 'version'
  | 'policy'
  | 'deadline'
  | 'normal'
  | 'effect'
  | 'format'
  | 'resources'
  | 'connection'

export interface Violation {
  invariant: Invariant
  count: number
  examples: string[]
}

const EXAMPLES_MAX = 3

export class Violations {
  private readonly found = new Map<Invariant, Violation>()

  get list(): readonly Violation[] {
    return [...this.found.values()]
  }

  report(invariant: Invariant, text: string): void {
    const violation = this.found.get(invariant) ?? { invariant, count: 0, examples: [] }
    this.found.set(invariant, violation)
    violation.count++
    if (violation.examples.length < EXAMPLES_MAX) violation.examples.push(text)
  }
}
