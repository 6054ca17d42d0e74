/**
 * Random rule files with the mistakes people make: odd scalars, odd keys, wrong shapes, and typos.
 *
 *     domain: L03R0012              domain: ~              domain: L03R0012
 *     descriptors:                  descriptors:           descriptors:
 *       - key: a                      - Key: a               - key: a
 *         value: 0x1F                   value: 1.5           \tvalue: *foo
 */
import type { Random } from './random.ts'
import { randomRules } from './rules.ts'

/** A document before it is written: maps as pairs, so that a key may occur twice; scalars as written. */
type Draft = string | Draft[] | { pairs: [key: string, value: Draft][] }

// biome-ignore format: a list of scalars
const ODD_SCALARS = [
  '15', '0x1F', '010', '1_000', 'yes', 'true', '2026-01-02', '12:30:45', '10.0.0.1', 'null', '~', "''", '1.5', '.5',
  '1e3', '18446744073709551615', '!!binary aGk=', '*foo', '5', '+5', '0x10', '0b11', '0o17', "'5'", '-1', '4294967295',
  '4294967296', '1.0', '5.5', 'True', 'FALSE', 'on', 'Off', 'n', 'N', 'Y', 'NO', "'true'", '"x"', '[]', '{}', '[a]',
  '{a: b}', '[null]', '- a', '&foo x', '!!str 5', '!!int "5"', '!foo x', '9223372036854775807', '9223372036854775808',
  '-9223372036854775809', '.inf', '.nan', '-.INF', '0', '00', '0x', '08', '1__0', '_1', '1_', '""', 'a: b', 'a #b', 'a#b',
  '@x', '`x', '%x', '|', '>', '|-\n  x', '>\n  x', '"a\\nb"', '"\\u00e9"', '"\\q"', "'it''s'", 'é', '日本', '=', '<<',
  'unknown', 'second', 'HOUR', 'Hours', 'week', 'quarter', '?', '-', '- -', ': x', '!!null x', '!!bool y', '!!float 1',
  '2026-01-02T03:04:05Z', '1,000', '0b2', '0o8', '-0', '-0x1', '190:20:30', '1e', '0.', '1.e2', '+.5', '6.8523015e+5',
]

// biome-ignore format: a list of keys
const ODD_KEYS = [
  'Key', '1', '0.25', 'true', 'y', 'yes', 'no', 'on', 'null', '~', '"key"', "'domain'", 'unit', 'domain', 'key', 'value',
  'descriptors', 'rate_limit', 'requests_per_unit', 'unlimited', 'name', 'replaces', 'shadow_mode', 'quota_mode',
  'detailed_metric', 'value_to_metric', 'share_threshold', 'x', '? a', '[a]', '{a: b}', '<<', '!!str key', '*foo', '&foo key',
  '2026-01-02', '""', 'key ', 'rate-limit', '.inf', '0x1F',
]

// biome-ignore format: a list of letters
const TYPOS = [
  '\t', "'", '"', ':', ': ', '-', '- ', '#', ' #', '&a ', '*a', '!!binary ', '\u0000', '{', '}', '[', ']', '|', '>', ',', '?',
  '\n---\n', '\n...\n', '%YAML 1.1\n', '\ufeff', '\r\n', '\r', '\n', ' ', '  ', '\u00e9', '\u0007', '\u0085', '\u2028', '\\', '%',
  '@', '`', '!', '<<: ', '~', '\ud83d\ude00', '\u00a0', '\u007f', '\ufffe',
]

/** One file, valid in a third of all cases. */
export function randomFile(random: Random, domain: string): string {
  const [file] = randomRules(random, domain, { isMerging: false, isPlain: random.chance(0.5) })
  const draft = toDraft(random, file)
  const breaks = random.chance(0.35) ? 0 : 1 + random.below(2)
  for (let i = 0; i < breaks; i++) if (random.chance(0.7)) breakDraft(random, draft)
  let text = write(random, draft, 0, random.chance(0.1))
  if (breaks > 0 && random.chance(0.4)) text = addTypo(random, text)
  if (random.chance(0.05))
    text = random.pick(['# rules\n', '---\n', '%YAML 1.1\n---\n', '\ufeff', '\n\n', '--- # x\n']) + text
  if (random.chance(0.03)) text += random.pick(['---\nfoo\n', '...\n', '...\nfoo: [\n', '# end', '---\n'])
  return text
}

function toDraft(random: Random, value: unknown): Draft {
  if (Array.isArray(value)) return value.map((item) => toDraft(random, item))
  if (typeof value === 'object' && value !== null) {
    return { pairs: Object.entries(value).map(([key, item]) => [key, toDraft(random, item)]) }
  }
  return typeof value === 'string' && (random.chance(0.7) || !/^[a-z]+$/i.test(value))
    ? JSON.stringify(value)
    : `${value}`
}

/** One change somewhere in the document. */
function breakDraft(random: Random, draft: Draft): void {
  const places = listPlaces(draft)
  const place = random.pick(places)
  const way = random.below(8)
  if (Array.isArray(place)) {
    if (way < 3) place.push(random.pick(ODD_SCALARS))
    else if (way < 5) place.push({ pairs: [] })
    else if (way < 7 && place.length > 0) place.push(structuredClone(random.pick(place)))
    else place.push([random.pick(ODD_SCALARS)])
    return
  }
  const { pairs } = place as { pairs: [string, Draft][] }
  if (pairs.length === 0 || way === 0) pairs.push([random.pick(ODD_KEYS), random.pick(ODD_SCALARS)])
  else if (way === 1) pairs.splice(random.below(pairs.length), 1)
  else if (way === 2) pairs.push(structuredClone(random.pick(pairs)))
  else if (way === 3) random.pick(pairs)[0] = random.pick(ODD_KEYS)
  else if (way === 4) pairs.push([random.pick(ODD_KEYS), structuredClone(random.pick(pairs)[1])])
  else if (way === 5)
    random.pick(pairs)[1] = random.chance(0.5) ? [] : { pairs: [[random.pick(ODD_KEYS), 'a']] }
  else random.pick(pairs)[1] = random.pick(ODD_SCALARS)
}

/** Every list and map of the document. */
function listPlaces(draft: Draft): Draft[] {
  if (typeof draft === 'string') return []
  const below = Array.isArray(draft) ? draft : draft.pairs.map(([, value]) => value)
  return [draft, ...below.flatMap(listPlaces)]
}

function write(random: Random, draft: Draft, depth: number, isFlow: boolean): string {
  if (typeof draft === 'string') return draft
  const indent = '  '.repeat(depth)
  if (Array.isArray(draft)) {
    if (isFlow || draft.length === 0)
      return `[${draft.map((item) => write(random, item, depth, true)).join(', ')}]`
    const items = draft.map(
      (item) => `${indent}- ${write(random, item, depth + 1, random.chance(0.1)).trimStart()}`,
    )
    return `\n${items.join('\n')}`
  }
  if (isFlow || draft.pairs.length === 0) {
    return `{${draft.pairs.map(([key, value]) => `${key}: ${write(random, value, depth, true)}`).join(', ')}}`
  }
  const lines = draft.pairs.map(([key, value]) => {
    const written = write(random, value, depth + 1, random.chance(0.05))
    return `${indent}${key}:${written.startsWith('\n') ? '' : ' '}${written}`
  })
  return `${depth === 0 ? '' : '\n'}${lines.join('\n')}${depth === 0 ? '\n' : ''}`
}

function addTypo(random: Random, text: string): string {
  const at = random.below(text.length + 1)
  const way = random.below(6)
  if (way < 3) return text.slice(0, at) + random.pick(TYPOS) + text.slice(at)
  if (way === 3) return text.slice(0, at) + text.slice(at + 1 + random.below(3))
  if (way === 4) return text.slice(0, at)
  const lines = text.split('\n')
  const line = random.below(lines.length)
  if (random.chance(0.5)) lines[line] = random.chance(0.5) ? ` ${lines[line]}` : lines[line].replace(/^ /, '')
  else lines.splice(line, 0, random.pick(lines))
  return lines.join('\n')
}
