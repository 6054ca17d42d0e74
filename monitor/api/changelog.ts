/**
 * changelog.yaml, read once at the start (spec 9). An error in it stops the start; a test validates the file in the repository.
 */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { check } from './schema/json-schema.ts'
import { components } from './schema/resources.ts'

const NOTICE_DAYS = 14
const DAY_MS = 86_400_000

export interface ChangelogEntry {
  id: string
  announced_on: string // YYYY-MM-DD
  effective_on: string
  kind: 'added' | 'changed' | 'deprecated' | 'removed' | 'fixed'
  endpoints: string[]
  text: string
}

export function readChangelog(path = new URL('./changelog.yaml', import.meta.url)): ChangelogEntry[] {
  return parseChangelog(readFileSync(path, 'utf8'))
}

/** Newest first, in any order of the file. Throws on an invalid entry. */
export function parseChangelog(text: string): ChangelogEntry[] {
  const value: unknown = parse(text, { schema: 'core', maxAliasCount: 0 })
  const schemas = components(true)
  const violation = check(schemas.Changelog, value, schemas)
  if (violation !== null) throw new Error(`changelog.yaml: ${violation}`)
  const { entries } = value as { entries: ChangelogEntry[] }
  for (const entry of entries) checkEntry(entry, entries)
  return [...entries].sort((a, b) =>
    a.announced_on < b.announced_on ? 1 : a.announced_on > b.announced_on ? -1 : 0,
  )
}

function checkEntry({ id, kind, announced_on, effective_on }: ChangelogEntry, all: ChangelogEntry[]): void {
  const [announced, effective] = [announced_on, effective_on].map((date) => new Date(date))
  for (const [i, date] of [announced, effective].entries()) {
    const exists =
      !Number.isNaN(date.getTime()) && date.toISOString().startsWith([announced_on, effective_on][i])
    if (!exists) throw new Error(`changelog.yaml: ${id} has a date that does not exist`)
  }
  const days = (effective.getTime() - announced.getTime()) / DAY_MS
  if (kind !== 'fixed' && days < NOTICE_DAYS) {
    throw new Error(
      `changelog.yaml: ${id} takes effect ${days} days after it is announced; the minimum is ${NOTICE_DAYS}`,
    )
  }
  if (all.filter((each) => each.id === id).length > 1)
    throw new Error(`changelog.yaml: the id ${id} is not unique`)
}
