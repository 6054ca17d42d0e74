/**
 * Remarks: what loads, as it does with the reference, and still can hardly be meant. `check-config` prints them, and the service
 * logs them after a load.
 *
 *     rules.yaml: line 12: 'shop.user' can never match: 'user_*' takes every value of its key first
 *
 * Each is said once, however many aliases lead to its place, and they are told in the order of the files.
 */

import { LINT_WARNINGS_MAX } from './bounds.ts'
import type { Place } from './rules.ts'

export class LintWarnings {
  private readonly made = new Map<string, Place & { order: number }>() // by text
  private readonly files = new Map<string, number>() // in load order
  private dropped = 0
  private isPartial = false

  /** To be called for each file in load order. */
  open(file: string): void {
    if (!this.files.has(file)) this.files.set(file, this.files.size)
  }

  add({ file, line }: Place, text: string): void {
    const whole = line > 0 ? `${file}: line ${line}: ${text}` : `${file}: ${text}`
    if (this.made.has(whole)) return
    if (this.made.size >= LINT_WARNINGS_MAX) {
      this.dropped++
      return
    }
    this.open(file)
    this.made.set(whole, { file, line, order: this.made.size })
  }

  /** Not everything was looked at. */
  setPartial(): void {
    this.isPartial = true
  }

  texts(): string[] {
    const fileOf = (place: Place) => this.files.get(place.file)!
    const sorted = [...this.made].sort(([, a], [, b]) => {
      return fileOf(a) - fileOf(b) || a.line - b.line || a.order - b.order
    })
    const texts = sorted.map(([text]) => text)
    if (this.dropped > 0) texts.push(`and ${this.dropped} more of the kind`)
    if (this.isPartial) texts.push('too many rules to compare each with each; some were not looked at')
    return texts
  }
}
