/**
 * What one site of a catalogue says, before and after it is checked (spec 8.1).
 *
 *     YAML, JSON ──┐
 *     CSV ─────────┴─► RawSite (any values, with their lines) ── fields.ts ──► CatalogueEntry
 */
import type { CatalogueSite } from '../facts.ts'

/** A site, and what only the operator sees of it. */
export interface CatalogueEntry extends CatalogueSite {
  note: string | null
}

export type RawValue = string | number | boolean | null | undefined | RawValue[] | { nested: true }

export interface RawSite {
  file: string
  line: number // from 1
  fields: Map<string, { value: RawValue; line: number }> // by key as written
}

/** Something to mend: `catalogue.yaml:14, site "x": what fix [CODE]`. */
export interface Diagnostic {
  file: string
  line: number // 0 = of the whole file
  site: string | null
  code: string
  what: string
  fix: string
}

export const DIAGNOSTICS_MAX = 50 // enough to mend a file by; the rest is told as a number

export class Diagnostics {
  readonly list: Diagnostic[] = []
  moreCount = 0

  add(complaint: Diagnostic): void {
    if (this.list.length < DIAGNOSTICS_MAX) this.list.push(complaint)
    else this.moreCount += 1
  }

  get isEmpty(): boolean {
    return this.list.length === 0
  }

  lines(): string[] {
    const lines = this.list.map(diagnosticText)
    return this.moreCount > 0 ? [...lines, `and ${this.moreCount} more`] : lines
  }
}

export function diagnosticText({ file, line, site, what, fix, code }: Diagnostic): string {
  const where = `${file}${line > 0 ? `:${line}` : ''}${site === null ? '' : `, site ${JSON.stringify(site)}`}`
  return `${where}: ${what} ${fix} [${code}]`
}
