import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { complaintsAbout, idsIn, rowsOf, testNames } from '../../scripts/spec-rows.ts'

const ROOT = join(import.meta.dirname, '../..')

const SPEC = `# Title
| not | in | a section |
## 1. Words
### 1.3 Keys (1.2 and more)

| Condition | Text |
|---|---|
| one | \`a|b\` |
| two | |

Text between.

| Other | head |
|:--|--:|
| three | 1.4 |
\`\`\`
| code | is |
|---|---|
| no | table |
\`\`\`
### 1.31 Like a neighbour

| Q | Fact |
|---|---|
| 1 | far |

## Appendix A. Vectors
### A.1 More

| a |
|---|
| b |
`

test('rows are counted per section, over all its tables, without heads and code', () => {
  expect(rowsOf(SPEC).map(({ id, line, text }) => [id, line, text.slice(0, 9)])).toEqual([
    ['1.3#1', 8, '| one | `'],
    ['1.3#2', 9, '| two | |'],
    ['1.3#3', 15, '| three |'],
    ['1.31#1', 25, '| 1 | far'],
    ['A.1#1', 32, '| b |'],
  ])
})

describe('ids in names of tests', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['1.3#1: a',                        ['1.3#1']],
    ['1.3 keys > 1.3#1 12#7: a',        ['1.3#1', '12#7']],
    ['1.3#9-11, A.1#2: a',              ['1.3#9', '1.3#10', '1.3#11', 'A.1#2']],
    ['1.3: no id, x.1.3#4, 21.3.1#2, #5', []],
  ] as const
  for (const [name, ids] of cases)
    test(name.replaceAll('#', '№'), () => expect([...idsIn([name])]).toEqual(ids))
})

test('a row without a test is named with its line, an id without a row too', () => {
  const rows = rowsOf(SPEC)
  const ids = new Set(['1.3#1', '1.3#3', '1.3#4', 'A.1#1', '1.4#1']) // 1.4 has no table
  expect(complaintsAbout(rows, ids, ['1.3', 'A'])).toEqual([
    'docs/spec/decision-service.md:9: 1.3#2 has no test: | two | |',
    'docs/spec/decision-service.md: 1.3#4 is in the name of a test, but there is no such row',
  ])
  expect(complaintsAbout(rows, new Set(), ['1', 'A'], ['1.3', 'A.1'])).toEqual([
    expect.stringContaining('1.31#1 has no test'),
  ])
  expect(complaintsAbout(rows, new Set(rows.map(({ id }) => id)), ['1', 'A'])).toEqual([])
})

describe('names of tests', () => {
  let project = ''
  beforeEach(() => {
    project = mkdtempSync(join(tmpdir(), 'sluice-rows-'))
    mkdirSync(join(project, 'test'))
    symlinkSync(join(ROOT, 'node_modules'), join(project, 'node_modules'))
    writeFileSync(
      join(project, 'vitest.config.mjs'),
      "export default { test: { include: ['test/*.test.ts'] } }",
    )
  })
  afterEach(() => rmSync(project, { recursive: true }))

  test('come with what tables made of them, without those that would not run', async () => {
    const file = `import { describe, test } from 'vitest'
      for (const n of [1, 2]) describe('group', () => { test(\`1.3#\${n}: x\`, () => {}) })
      test.skip('1.3#3: y', () => {})
      test.todo('1.3#4: z')`
    writeFileSync(join(project, 'test/a.test.ts'), file)
    expect(await testNames(project)).toEqual(['group > 1.3#1: x', 'group > 1.3#2: x'])
  })

  test('a test file that does not load is said, in a few lines', async () => {
    writeFileSync(join(project, 'test/a.test.ts'), 'missing()')
    await expect(testNames(project)).rejects.toThrow(
      /vitest cannot list the tests:\n.*missing is not defined/,
    )
  })
})

test('the sections on rules and matching have a test for every row', async () => {
  const rows = rowsOf(readFileSync(join(ROOT, 'docs/spec/decision-service.md'), 'utf8'))
  expect(rows.length).toBeGreaterThan(200)
  const names = await testNames(ROOT, ['test/engine/config', 'test/engine/match'])
  expect(complaintsAbout(rows, idsIn(names), ['1', '2', '11.5', 'A.1', 'A.2'])).toEqual([])
})
