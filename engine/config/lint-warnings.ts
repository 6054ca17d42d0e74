/**
 * Lint warnings: rules that are valid, as in envoyproxy/ratelimit, but probably a mistake. `check-config` prints them, and
 * the service logs them after a load.
 *
 *     rules.yaml: line 12: 'shop.user' can never match: 'user_*' matches all of its requests first
 *
 * Each is reported once, however many aliases lead to its place, in the order of the files.
 */

import { LINT_WARNINGS_MAX } from './bounds.ts'
import type { Place } from './rules.ts'

export class LintWarnings {
  private readonly warnings = new Map<string, Place & { order: number }>() // by text
  private readonly files = new Map<string, number>() // in load order
  private droppedCount = 0
  private isPartial = false
  private readonly isPortable: boolean

  /** `isPortable`: keys that envoyproxy/ratelimit refuses are warnings, too. */
  constructor(isPortable = false) {
    this.isPortable = isPortable
  }

  /** To be called for each file in load order. */
  open(file: string): void {
    if (!this.files.has(file)) this.files.set(file, this.files.size)
  }

  add({ file, line }: Place, text: string): void {
    const whole = line > 0 ? `${file}: line ${line}: ${text}` : `${file}: ${text}`
    if (this.warnings.has(whole)) return
    if (this.warnings.size >= LINT_WARNINGS_MAX) {
      this.droppedCount++
      return
    }
    this.open(file)
    this.warnings.set(whole, { file, line, order: this.warnings.size })
  }

  /** A key of Sluice's own. */
  addOwnKey(place: Place, key: string): void {
    if (this.isPortable) this.add(place, `${key} is a key of Sluice: envoyproxy/ratelimit refuses the file`)
  }

  /** Some rules were not checked. */
  setPartial(): void {
    this.isPartial = true
  }

  texts(): string[] {
    const getFileIndex = (place: Place) => this.files.get(place.file)!
    const sorted = [...this.warnings].sort(([, a], [, b]) => {
      return getFileIndex(a) - getFileIndex(b) || a.line - b.line || a.order - b.order
    })
    const texts = sorted.map(([text]) => text)
    if (this.droppedCount > 0) texts.push(`${this.droppedCount} more warnings`)
    if (this.isPartial) texts.push('too many rules to compare all pairs; some were not checked')
    return texts
  }
}
