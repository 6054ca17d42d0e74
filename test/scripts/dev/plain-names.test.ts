import { expect, test } from 'vitest'
import { checkNames } from '../../../scripts/dev/plain-names.ts'

const check = (text: string) => checkNames(new Map([['engine/match/trie.ts', text]]))

// biome-ignore format: one way to define a name per line
const definitions = [
  ['function keyOf(text: string): string {',        'keyOf'],
  ['export async function keyOf(text: string) {',   'keyOf'],
  ['const keyOf = (text: string) => text',          'keyOf'],
  ['  private keyOf(text: string): string {',       'keyOf'],
  ['  readonly keyOf: (text: string) => string',    'keyOf'],
  ['  #keyOf(text: string): string {',              'keyOf'],
  ['function find(keyOf: (text: string) => void) {', 'keyOf'],
  ['const told = read()',                           'told'],
  ['let lastTold = 0',                              'lastTold'],
  ['function find(told: string): void {',           'told'],
] as const

for (const [line, name] of definitions) {
  test(`a definition: ${line.trim()}`, () => {
    expect(check(`${line}\n`)).toEqual([
      `engine/match/trie.ts: ${name} ends in "Of" or with "told". Use a verb or a noun.`,
    ])
  })
}

// biome-ignore format: one line that defines no such name per line
const others = [
  'const i = keys.indexOf(key)',
  '  anyOf: schema[],',
  '// const told = read()',
  '/** function keyOf( */',
  'const isToldApart = true',
  "log('warning', 'told')",
]

for (const line of others) {
  test(`no definition: ${line.trim()}`, () => expect(check(`${line}\n`)).toEqual([]))
}

test('a file is named after its content', () => {
  const files = new Map([
    ['monitor/site/words.ts', ''],
    ['monitor/site/keywords.ts', ''],
  ])
  expect(checkNames(files)).toEqual([
    'monitor/site/words.ts: does not say what it contains. Rename it after its content.',
  ])
})
