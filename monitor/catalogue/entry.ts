/**
 * One site of a catalogue, before and after validation (spec 8.1), and diagnostics.
 *
 *     YAML, JSON ──┐
 *     CSV ─────────┴─► RawSite (any values, with their lines) ── fields.ts ──► CatalogueEntry
 */
import type { CatalogueSite } from '../facts.ts'

/** A site with the operator's note, which is not published. */
export interface CatalogueEntry extends CatalogueSite {
  note: string | null
}

export type RawValue = string | number | boolean | null | undefined | RawValue[] | { nested: true }

export interface RawSite {
  file: string
  line: number // from 1
  fields: Map<string, { value: RawValue; line: number }> // by key as written
}

/** An error in the catalogue: `catalogue.yaml:14, site "x": what fix [CODE]`. */
export interface Diagnostic {
  file: string
  line: number // 0 = of the whole file
  site: string | null
  code: string
  what: string
  fix: string
}

export const DIAGNOSTICS_MAX = 50 // the rest is reported as a count

export class Diagnostics {
  readonly list: Diagnostic[] = []
  moreCount = 0

  add(diagnostic: Diagnostic): void {
    if (this.list.length < DIAGNOSTICS_MAX) this.list.push(diagnostic)
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
