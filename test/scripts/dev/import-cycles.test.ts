import { expect, test } from 'vitest'
import { checkCycles } from '../../../scripts/dev/import-cycles.ts'

const check = (files: Record<string, string>, known: string[] = []) =>
  checkCycles(new Map(Object.entries(files)), known)

const cycle = (path: string) =>
  `${path.split(' ')[0]}: import cycle: ${path}. Move what both need into a file of its own.`

test('imports in one direction are not a cycle', () => {
  const files = { 'a.ts': "import { b } from './b.ts'", 'b.ts': "import './c.ts'", 'c.ts': '' }
  expect(check(files)).toEqual({ diagnostics: [], warnings: [] })
})

// biome-ignore format: one way to write an import per line
const forms = [
  "import { a } from '../x/a.ts'",
  "import type { A } from '../x/a.ts'",
  "import {\n  a,\n} from '../x/a.ts'",
  "import '../x/a.ts'",
  "export * from '../x/a.ts'",
  "const { a } = await import('../x/a.ts')",
  "type A = import('../x/a.ts').A",
]

for (const form of forms) {
  test(`a cycle is found through: ${form.replaceAll('\n', ' ')}`, () => {
    const files = { 'x/a.ts': "import { b } from '../y/b.ts'\n", 'y/b.ts': `// first line\n${form}\n` }
    expect(check(files).diagnostics).toEqual([cycle('x/a.ts -> y/b.ts -> x/a.ts')])
  })
}

test('a group of files has one diagnostic, with a shortest path', () => {
  const files = {
    'a.ts': "import './b.ts'\nimport './c.ts'",
    'b.ts': "import './c.ts'",
    'c.ts': "import './a.ts'",
    'own.ts': "import './own.ts'",
  }
  expect(check(files).diagnostics).toEqual([cycle('a.ts -> c.ts -> a.ts'), cycle('own.ts -> own.ts')])
})

test('a file that only leads to a cycle is not part of it', () => {
  const files = { 'a.ts': "import './b.ts'", 'b.ts': "import './c.ts'", 'c.ts': "import './b.ts'" }
  expect(check(files).diagnostics).toEqual([cycle('b.ts -> c.ts -> b.ts')])
})

test('a known import is allowed; one that no longer exists is a warning', () => {
  const files = { 'a.ts': "import './b.ts'", 'b.ts': "import './a.ts'" }
  expect(check(files, ['b.ts -> a.ts', 'c.ts -> a.ts'])).toEqual({
    diagnostics: [],
    warnings: [
      'scripts/dev/import-cycles.ts: "c.ts -> a.ts" no longer exists. Remove it from KNOWN_IMPORTS.',
    ],
  })
})

test('the file of a thread is not an import', () => {
  const files = { 'a.ts': "resolveModule('./b.ts', import.meta.url)", 'b.ts': "import './a.ts'" }
  expect(check(files).diagnostics).toEqual([])
})
