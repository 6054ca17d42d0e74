/**
 * The short way of reading YAML against the long one: where the short way yields nodes at all, the parser finds no error
 * and makes the same nodes at the same places. Files that are mostly plain, then damaged: shifted, swapped, cut lines and
 * what YAML gives a meaning to in places where it has one; and the damaged files that the fuzz test loads.
 */

import { expect, test } from 'vitest'
import { isMap, isScalar, isSeq } from 'yaml'
import { type AnyNode, parse } from '../../../engine/config/yaml.ts'
import { readYamlFast } from '../../../engine/config/yaml-fast-path.ts'
import { damagedFile, originals } from '../../fuzz/yaml-files.ts'
import { seed, seeded, size } from '../../helpers/size.ts'

const FILES = size({ small: 3_000, full: 500_000 })

/** A node and all below it with its kind, text, tag and place. */
function drawn(node: unknown): unknown {
  if (isScalar(node)) {
    const { type, value, tag, anchor, range } = node
    return [type, value, tag, anchor, range?.slice(0, 2)]
  }
  if (isSeq(node)) return ['list', node.tag, node.anchor, node.range?.[0], node.items.map(drawn)]
  if (!isMap(node)) return node
  const pairs = node.items.map(({ key, value }) => [drawn(key), drawn(value)])
  return ['map', node.tag, node.anchor, node.range?.[0], pairs]
}

/** '' or what differs. */
function difference(text: string): string {
  const plain = readYamlFast(text)
  if (plain === null) return ''
  const document = parse(text)
  const whole = JSON.stringify(drawn(document?.contents as AnyNode))
  if (document?.errors.length === 0 && JSON.stringify(drawn(plain)) === whole) return ''
  return `${JSON.stringify(text)}\n${document?.errors}\nlong way  ${whole}\nshort way ${JSON.stringify(drawn(plain))}`
}

// biome-ignore format: one column of values, one of pieces that mean something to YAML
const PLAIN_VALUES = [
  'user', '/api/v1/*', 'a b', 'minute', '7', '0x1F', 'yes', '12:30', 'a:b', 'http://x/y', '.5', '...', 'a*b', 'v=1,2', '0_0',
  'null', '"a b"', '"#: {"', "'*'", "''", '""', "'é'",
]
// biome-ignore format: see above
const OTHER_VALUES = ['~', '-1', '"\\n"', "'it''s'", '|', '[a]', '{unit: day}', '*a', '&a x', '!!int 1', '- x', 'a  b', 'é', '<<']
// biome-ignore format: see above
const PIECES = [' ', '  ', '\t', '#', ' # c', ':', ': ', '- ', '-', '"', "'", '\n', '\n\n', '\r\n', '---\n', '...\n', '? ', '| ',
  '& ', '*', '!', '%', '@', '{', '}', '[', ',', '\\', 'é', '\u0085', '\u2028', 'a', 'key: x', 'A', '<<: ', ' : ', '=', '_', '/']

type Random = () => number

function pick<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)]
}

/** A map in block style. Each map and list chooses its own indent. */
function block(random: Random, indent: number, levels: number): string {
  const pad = ' '.repeat(indent)
  let text = ''
  for (let left = 1 + Math.floor(random() * 4); left > 0; left--) {
    const below = indent + 1 + Math.floor(random() * 4)
    const word = pick(random, ['key', 'value', 'rate_limit', 'unit', 'descriptors', 'a'])
    const kind = levels > 0 ? random() : 0
    if (kind < 0.5) text += `${pad}${word}: ${pick(random, random() < 0.97 ? PLAIN_VALUES : OTHER_VALUES)}`
    else if (kind < 0.7) text += `${pad}${word}:\n${block(random, below, levels - 1)}`
    else text += `${pad}${word}:\n${list(random, random() < 0.3 ? indent : below, levels - 1)}`
    if (random() < 0.1) text += pick(random, [' # note', '  ', '\n', '\n# c', '\n      # c: d'])
    text = text.endsWith('\n') ? text : `${text}\n`
  }
  return text
}

function list(random: Random, indent: number, levels: number): string {
  const dash = `-${' '.repeat(1 + Math.floor(random() * 3))}`
  let text = ''
  for (let left = 1 + Math.floor(random() * 3); left > 0; left--) {
    const item = block(random, indent + dash.length, levels)
    text += ' '.repeat(indent) + dash + item.slice(indent + dash.length)
  }
  return text
}

function damaged(random: Random, text: string): string {
  const lines = text.split('\n')
  const a = Math.floor(random() * lines.length)
  const b = Math.floor(random() * lines.length)
  const at = Math.floor(random() * (text.length + 1))
  // biome-ignore format: one line per damage
  switch (Math.floor(random() * 5)) {
    case 0: lines[a] = ' '.repeat(Math.floor(random() * 9)) + lines[a].trimStart(); return lines.join('\n')
    case 1: [lines[a], lines[b]] = [lines[b], lines[a]]; return lines.join('\n')
    case 2: lines.splice(a, 1); return lines.join('\n')
    case 3: return text.slice(0, at)
    default: return text.slice(0, at) + pick(random, PIECES) + text.slice(at + Math.floor(random() * 3))
  }
}

test(`1.2: of ${FILES} files those read line by line have the nodes that the parser makes`, () => {
  const random = seeded(seed())
  let plainCount = 0
  for (let i = 0; i < FILES; i++) {
    let text = pick(random, ['', '---\n', '# c\n\n---\n', '\n', ' # c\n']) + block(random, 0, 4)
    for (let left = Math.floor(random() * 4); left > 0; left--) text = damaged(random, text)
    const found = difference(text)
    expect(found, `file ${i} of seed ${seed()}`).toBe('')
    if (readYamlFast(text)) plainCount++
  }
  expect(plainCount).toBeGreaterThan(FILES / 5)
})

test('1.2, 1.3: so it is with the files of the repository, the snippets of the specification, and both damaged', () => {
  const real = originals()
  for (const text of real) expect(difference(text)).toBe('')
  for (let i = 0; i < FILES / 10; i++) {
    const text = damagedFile(seed(), i, real).toString()
    expect(difference(text), `file ${i} of seed ${seed()}`).toBe('')
  }
})

test('1.2: what the reference documents as block style takes the short way, whatever its indents and comments', () => {
  const text = `# limits
---
domain: shop
descriptors:
# same indent
- key: path   # unquoted
  value: /api/v1/*
  rate_limit:

      unit: minute
      requests_per_unit: 5
  descriptors:
    -   key: "a: b"
        value: '#1'
`
  expect(readYamlFast(text)).not.toBeNull()
  expect(difference(text)).toBe('')
})
