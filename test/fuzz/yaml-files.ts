/**
 * Rule files as users write them, then mutated: number `i` of a seed is always the same file.
 *
 *     real files ┐
 *     spec rows  ├─► one of them ─► 0 to 6 mutations ─► bytes
 *     generated  ┘                  (of bytes, tokens, lines, whole pieces)
 */
import { readdirSync, readFileSync } from 'node:fs'
import { seeded } from '../../bench/size.ts'

const MUTATIONS_MAX = 6
const BYTES_MAX = 64 * 1024 // a file that repeats itself stops growing here

type Random = () => number

// biome-ignore format: what YAML and the reference treat specially
const TOKENS = [
  'domain', 'key', 'value', 'descriptors', 'rate_limit', 'unit', 'requests_per_unit', 'unlimited', 'shadow_mode',
  'quota_mode', 'name', 'replaces', 'detailed_metric', 'value_to_metric', 'share_threshold', 'metadata', 'on_store_error',
  'local_share', 'local', '50',
  ': ', ':', '- ', '? ', '\n', '\n  ', '\n    ', ' ', '\t', '{', '}', '[', ']', ',', '&a ', '*a', '<<: *a', '<<', '!!int ',
  '!!str ', '!!binary ', '!!binary /w==', '!!map ', '!!float 1', '!x ', '!!null ', '| ', '>-\n', "'", '"', "''", '\\', '\\u',
  '"\\ud800"', '%YAML 1.2\n', '%', '#', '---\n', '...\n', '@', '`', '*', '**', 'a*b', '_', '', '~', 'null', 'yes', 'on',
  'true', '1', '-1', '0x1F', '010', '1_000', '.5', '1e3', '.inf', '4294967295', '4294967296', '9223372036854775808',
  '18446744073709551616', 'day', 'second', 'week', 'x', 'é', '😀', '\u0085', '\u2028', '\ufeff', '\u0000', '\r', '\r\n',
]

const KEYS = ['user', 'path', 'plan', 'a', 'a_b', 'wild', 'key*', '*']
const VALUES = ['', 'x', 'b_c', '/api/*', 'a*b*c', "'*'", '"a*"', '7', 'yes', '~', '!!binary aGk=']
const UNITS = ['second', 'MINUTE', 'hour', 'day', 'Week', 'month', 'year']
const FLAGS = ['shadow_mode', 'quota_mode', 'detailed_metric', 'value_to_metric']

/** The files that mutations start from: those of the repository, and one per snippet of section 1.3's table. */
export function originals(): string[] {
  const examples = new URL('../../examples/config/', import.meta.url)
  const files = readdirSync(examples).map((name) => readFileSync(new URL(name, examples), 'utf8'))
  const spec = readFileSync(new URL('../../docs/spec/decision-service.md', import.meta.url), 'utf8')
  const rows = spec.slice(spec.indexOf('### 1.3'), spec.indexOf('### 1.5'))
  for (const [, snippet] of rows.matchAll(/`([^`\n]+)`/g)) {
    const isRoot = /^(domain|descriptors|'''|\?)/.test(snippet)
    const written = snippet.replaceAll('\\n', '\n')
    files.push(isRoot ? written : `domain: d\ndescriptors:\n  - key: k\n    ${written}\n`)
  }
  return files
}

/** File number `index` of a seed. */
export function damagedFile(seed: number, index: number, real: readonly string[]): Buffer {
  const random = seeded(seed + index * 7_919)
  let bytes = Buffer.from(random() < 0.6 ? generated(random) : pick(random, real))
  const count = Math.floor(random() ** 2 * (MUTATIONS_MAX + 1)) // mostly few: a file with two errors is refused for the first
  for (let i = 0; i < count; i++) bytes = mutated(random, bytes, real)
  return bytes
}

function mutated(random: Random, bytes: Buffer, real: readonly string[]): Buffer<ArrayBuffer> {
  const from = Math.floor(random() * (bytes.length + 1))
  const to = Math.min(bytes.length, from + Math.floor(random() ** 3 * 60))
  const before = bytes.subarray(0, from)
  const after = bytes.subarray(to)
  // biome-ignore format: one line per mutation
  switch (Math.floor(random() * 8)) {
    case 0: return joined(before, Buffer.of(Math.floor(random() * 256)), bytes.subarray(from + 1)) // another byte
    case 1: return joined(before, after) // a piece less
    case 2: return joined(before, bytes.subarray(from, to), bytes.subarray(from)) // a piece twice
    case 3: return joined(before, Buffer.from(pick(random, TOKENS)), bytes.subarray(from)) // a token more
    case 4: return joined(before, Buffer.from(pick(random, TOKENS)), after) // a token for a piece
    case 5: return joined(before) // cut off
    case 6: return joined(before, Buffer.from(pick(random, real)).subarray(Math.floor(random() * 40))) // another file's end
    default: return withLines(random, bytes)
  }
}

/** Swaps two lines, or indents one of them differently. */
function withLines(random: Random, bytes: Buffer): Buffer<ArrayBuffer> {
  const lines = bytes.toString('latin1').split('\n') // keeps every byte
  const a = Math.floor(random() * lines.length)
  const b = Math.floor(random() * lines.length)
  if (random() < 0.5) [lines[a], lines[b]] = [lines[b], lines[a]]
  else lines[a] = ' '.repeat(Math.floor(random() * 6)) + lines[a].trimStart()
  return joined(Buffer.from(lines.join('\n'), 'latin1'))
}

function joined(...parts: Buffer[]): Buffer<ArrayBuffer> {
  return Buffer.concat(parts).subarray(0, BYTES_MAX)
}

/** A mostly valid rule file, in block or in flow style. */
function generated(random: Random): string {
  const nodes = Array.from({ length: 1 + Math.floor(random() * 4) }, () => node(random, 3))
  if (random() < 0.5)
    return `domain: ${pick(random, ['d', 'shop', '5', "'a b'"])}\ndescriptors: [${nodes.join(', ')}]\n`
  return `domain: d\ndescriptors:\n${nodes.map((text) => `  - ${text}\n`).join('')}`
}

function node(random: Random, levels: number): string {
  const fields = [`key: ${JSON.stringify(pick(random, KEYS))}`]
  const value = pick(random, VALUES)
  if (value !== '') fields.push(`value: ${value}`)
  if (random() < 0.7) fields.push(`rate_limit: ${limit(random)}`)
  if (value.includes('*') && random() < 0.3) fields.push('share_threshold: true')
  if (random() < 0.3) fields.push(`${pick(random, FLAGS)}: ${pick(random, ['true', 'yes', 'off', '~'])}`)
  if (random() < 0.1) fields.push('metadata: {a: [1, {b: ~}], 2: .5}')
  if (levels > 1 && random() < 0.4)
    fields.push(`descriptors: [${node(random, levels - 1)}, ${node(random, levels - 1)}]`)
  const anchor = random() < 0.1 ? '&a ' : ''
  return `${anchor}{${fields.join(', ')}}`
}

function limit(random: Random): string {
  const fields: string[] = []
  if (random() < 0.1) fields.push('unlimited: true')
  else fields.push(`unit: ${pick(random, UNITS)}`)
  if (random() < 0.9)
    fields.push(`requests_per_unit: ${pick(random, ['0', '1', '10', '0x10', '4294967295'])}`)
  if (random() < 0.3) fields.push(`name: ${pick(random, ['a', 'b', 'c'])}`)
  if (random() < 0.2) fields.push(`replaces: [{name: ${pick(random, ['x', 'y'])}}]`)
  return `{${fields.join(', ')}}`
}

function pick<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)]
}
