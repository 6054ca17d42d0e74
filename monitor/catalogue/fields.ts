/**
 * The keys of a catalogue entry with their validation (spec 8.1): one table for reading, import and export.
 */
import type { CatalogueSite, Region, SiteFlag } from '../facts.ts'
import type { CatalogueEntry, Diagnostics, RawSite, RawValue } from './entry.ts'
import { isBelowFolder } from './key-file.ts'
import { canonicalUrl, parsedUrl, toTargetKey } from './target-key.ts'

export const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
export const INTERVAL_MIN_SEC = 60
export const INTERVAL_MAX_SEC = 3_600
const NAME_CHARS_MAX = 80
const NOTE_CHARS_MAX = 2_000
const MODELS_MAX = 5_000
const MODEL_CHARS_MAX = 128
const ALIASES_MAX = 20
const REGIONS: Region[] = ['cn', 'overseas']
const FLAGS: SiteFlag[] = ['scam', 'closed', 'phishing']
const CONTROL = /\p{Cc}|\p{Zl}|\p{Zp}/u
/** A name that nobody can read or that reorders what follows it would be another site's. */
const INVISIBLE = /\p{Cf}|\p{Default_Ignorable_Code_Point}|\u2800|\p{M}{5}/u
const KEY_LIKE = /^((sk|rk|rm|pk|key|api)[-_][^/.]*|[A-Za-z0-9_-]{32,})$/ // a secret in place of the path of its file

/** The form of a value in CSV: a list is `a;b`, a flag is true or false. */
export type FieldKind = 'text' | 'list' | 'number' | 'flag'

interface Field {
  key: string
  kind: FieldKind
  property: keyof CatalogueEntry
  /** The value, or what is wrong with it and how to correct it. */
  read: (value: RawValue) => { value: unknown } | Problem
}

interface Problem {
  what: string
  fix: string
}

// biome-ignore format: the columns are the specification
export const FIELDS: readonly Field[] = [
  { key: 'slug',           kind: 'text',   property: 'slug',          read: slug },
  { key: 'name',           kind: 'text',   property: 'name',          read: text(NAME_CHARS_MAX) },
  { key: 'url',            kind: 'text',   property: 'url',           read: address },
  { key: 'api_base',       kind: 'text',   property: 'apiBase',       read: apiBase },
  { key: 'first_seen',     kind: 'text',   property: 'firstSeen',     read: date },
  { key: 'models_claimed', kind: 'list',   property: 'modelsClaimed', read: list(MODELS_MAX, text(MODEL_CHARS_MAX)) },
  { key: 'key_file',       kind: 'text',   property: 'keyFile',       read: keyFile },
  { key: 'aliases',        kind: 'list',   property: 'aliases',       read: list(ALIASES_MAX, slug) },
  { key: 'regions',        kind: 'list',   property: 'regions',       read: regions },
  { key: 'interval_s',     kind: 'number', property: 'intervalSec',   read: interval },
  { key: 'screenshot',     kind: 'flag',   property: 'hasScreenshot', read: flag },
  { key: 'flags',          kind: 'list',   property: 'flags',         read: list(FLAGS.length, wordField(FLAGS)) },
  { key: 'hidden',         kind: 'flag',   property: 'isHidden',      read: flag },
  { key: 'note',           kind: 'text',   property: 'note',          read: note },
]
const REQUIRED = ['slug', 'name', 'url']
const KEYS = FIELDS.map(({ key }) => key)

const DEFAULTS: Omit<CatalogueEntry, 'slug' | 'name' | 'url' | 'apiBase'> = {
  firstSeen: null,
  modelsClaimed: [],
  keyFile: null,
  aliases: [],
  regions: REGIONS,
  intervalSec: null,
  hasScreenshot: true,
  flags: [],
  isHidden: false,
  note: null,
}

/** Null when anything is invalid; the errors are added to `diagnostics`. */
export function parseEntry(raw: RawSite, diagnostics: Diagnostics): CatalogueEntry | null {
  const named = raw.fields.get('slug')?.value
  const site = typeof named === 'string' ? named.slice(0, 64) : null
  let isValid = true
  const addDiagnostic = (line: number, code: string, what: string, fix: string) => {
    diagnostics.add({ file: raw.file, line, site, code, what, fix })
    isValid = false
  }
  const values: Record<string, unknown> = {}
  for (const [key, { value, line }] of raw.fields) {
    const field = FIELDS.find((known) => known.key === key)
    if (!field) {
      addDiagnostic(
        line,
        'KEY_UNKNOWN',
        `there is no key ${JSON.stringify(key.slice(0, 64))}.`,
        `Use one of ${KEYS.join(', ')}.`,
      )
      continue
    }
    const result = field.read(value)
    if ('value' in result) values[field.property] = result.value
    else addDiagnostic(line, 'VALUE_INVALID', `${key} ${result.what}`, result.fix)
  }
  for (const key of REQUIRED) {
    if (!raw.fields.has(key))
      addDiagnostic(raw.line, 'KEY_MISSING', `${key} is missing.`, `Write ${key}: and its value.`)
  }
  if (!isValid) return null
  const entry = { ...DEFAULTS, ...values } as CatalogueEntry
  return { ...entry, apiBase: entry.apiBase ?? toTargetKey(entry.url)! }
}

/** Removes the operator's note. */
export function toSite({ note: _, ...site }: CatalogueEntry): CatalogueSite {
  return site
}

/** The keys to write, without defaults, so that reading them gives the same entry. */
export function toRaw(entry: CatalogueEntry): Record<string, unknown> {
  const written = FIELDS.flatMap(({ key, property }) => {
    const value = entry[property]
    const isDefault =
      property === 'apiBase'
        ? value === toTargetKey(entry.url)
        : property in DEFAULTS &&
          JSON.stringify(value) === JSON.stringify(DEFAULTS[property as keyof typeof DEFAULTS])
    return isDefault ? [] : [[key, value]]
  })
  return Object.fromEntries(written)
}

function slug(value: RawValue): { value: unknown } | Problem {
  if (typeof value === 'string' && SLUG.test(value)) return { value }
  return {
    what: 'is not a slug.',
    fix: 'Write 1 to 63 of a-z, 0-9 and -, neither beginning nor ending with -.',
  }
}

function text(charsMax: number) {
  return (value: RawValue): { value: unknown } | Problem => {
    const isText = typeof value === 'string' && value.trim() === value && value !== '' && !CONTROL.test(value)
    if (isText && INVISIBLE.test(value)) {
      return {
        what: 'has invisible characters, or more than four marks on one letter.',
        fix: 'Take them out; characters that set the direction of text, join or fill are not allowed.',
      }
    }
    if (isText && [...value].length <= charsMax) return { value }
    const quotes = typeof value === 'number' || typeof value === 'boolean' ? ', in quotes' : ''
    return {
      what: `is not a text of 1 to ${charsMax} characters.`,
      fix: `Write it in one line${quotes}, without control characters and without blanks around it.`,
    }
  }
}

const ADDRESS_FIX = 'Write http:// or https://, a host, perhaps a port and a path; nothing else.'

function address(value: RawValue): { value: unknown } | Problem {
  const url = typeof value === 'string' ? parsedUrl(value) : null
  if (!url || toTargetKey(value as string) === null)
    return { what: 'is not an absolute web address.', fix: ADDRESS_FIX }
  if (url.search || url.hash)
    return { what: 'has a query or a fragment.', fix: 'Take out what begins with ? or #.' }
  return { value: canonicalUrl(url) }
}

/** The prober appends `/v1/models`, so a final /v1 is removed. */
function apiBase(value: RawValue): { value: unknown } | Problem {
  const result = address(value)
  return 'value' in result ? { value: toTargetKey(value as string) } : result
}

function date(value: RawValue): { value: unknown } | Problem {
  const isDate =
    typeof value === 'string' &&
    /^\d{4}-\d\d-\d\d$/.test(value) &&
    !Number.isNaN(Date.parse(value)) &&
    new Date(value).toISOString().startsWith(value)
  return isDate ? { value } : { what: 'is not a day.', fix: 'Write it as 2026-03-01.' }
}

function keyFile(value: RawValue): { value: unknown } | Problem {
  const result = text(512)(value)
  if (!('value' in result)) return result
  if (!isBelowFolder(value as string))
    return {
      what: "is not a path below the catalogue's folder.",
      fix: 'Put the file into that folder, or one in it, and write its path from there, like secrets/site.key.',
    }
  if (!KEY_LIKE.test(value as string)) return result
  return {
    what: 'looks like a key itself.',
    fix: 'Put the key into a file of its own and write the path of that file.',
  }
}

function regions(value: RawValue): { value: unknown } | Problem {
  const result = list(REGIONS.length, wordField(REGIONS))(value)
  if (!('value' in result)) return result
  const named = result.value as Region[]
  if (named.length > 0) return { value: REGIONS.filter((region) => named.includes(region)) }
  return { what: 'is empty.', fix: 'Name cn, overseas or both, or leave the key out for both.' }
}

function interval(value: RawValue): { value: unknown } | Problem {
  const isIn =
    Number.isInteger(value) && (value as number) >= INTERVAL_MIN_SEC && (value as number) <= INTERVAL_MAX_SEC
  if (isIn) return { value }
  return {
    what: 'is out of bounds.',
    fix: `Write whole seconds from ${INTERVAL_MIN_SEC} to ${INTERVAL_MAX_SEC}.`,
  }
}

function flag(value: RawValue): { value: unknown } | Problem {
  return typeof value === 'boolean'
    ? { value }
    : { what: 'is neither yes nor no.', fix: 'Write true or false.' }
}

function note(value: RawValue): { value: unknown } | Problem {
  if (typeof value === 'string' && value.length <= NOTE_CHARS_MAX)
    return { value: value === '' ? null : value }
  return {
    what: `is not a text of at most ${NOTE_CHARS_MAX} characters.`,
    fix: 'Shorten it, or put it in quotes.',
  }
}

function wordField(names: readonly string[]) {
  return (value: RawValue): { value: unknown } | Problem =>
    names.includes(value as string)
      ? { value }
      : { what: `names ${JSON.stringify(value)?.slice(0, 66)}.`, fix: `Use ${names.join(', ')}.` }
}

function list(itemsMax: number, read: (value: RawValue) => { value: unknown } | Problem) {
  return (value: RawValue): { value: unknown } | Problem => {
    if (!Array.isArray(value))
      return { what: 'is not a list.', fix: 'Write [first, second], or [] for none.' }
    if (value.length > itemsMax)
      return { what: `has ${value.length} items.`, fix: `Keep at most ${itemsMax}.` }
    const items: unknown[] = []
    for (const item of value) {
      const result = read(item)
      if (!('value' in result)) return { what: `has an item that ${result.what}`, fix: result.fix }
      if (items.includes(result.value))
        return { what: `has ${JSON.stringify(item)} twice.`, fix: 'Take one out.' }
      items.push(result.value)
    }
    return { value: items }
  }
}
