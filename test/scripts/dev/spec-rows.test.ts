import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { rows as settings } from '../../../engine/settings/table.ts'
import { monitorRows } from '../../../monitor/settings.ts'
import {
  checkList,
  checkRows,
  findIds,
  listTestNames,
  parseNotBuilt,
  parseRows,
  SPECS,
} from '../../../scripts/dev/spec-rows.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const ROOT = join(import.meta.dirname, '../../..')

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

test('rows are counted per section, over all its tables, without headings and code', () => {
  expect(parseRows(SPEC).map(({ id, line, text }) => [id, line, text.slice(0, 9)])).toEqual([
    ['1.3#1', 8, '| one | `'],
    ['1.3#2', 9, '| two | |'],
    ['1.3#3', 15, '| three |'],
    ['1.31#1', 25, '| 1 | far'],
    ['A.1#1', 32, '| b |'],
  ])
})

test('in the sections of `lists`, list items are rows too; ids begin with the prefix', () => {
  const text = `- before any section
## 5. Safety
1. first
   - within the first
| a |
|---|
| b |
- third
### 5.1 Elsewhere
- no row
`
  const rows = parseRows(text, { path: 'docs/spec/monitor.md', prefix: 'M', lists: ['5'] })
  expect(rows).toEqual([
    { id: 'M5#1', section: 'M5', file: 'docs/spec/monitor.md', line: 3, text: '1. first' },
    { id: 'M5#2', section: 'M5', file: 'docs/spec/monitor.md', line: 7, text: '| b |' },
    { id: 'M5#3', section: 'M5', file: 'docs/spec/monitor.md', line: 8, text: '- third' },
  ])
})

test('each specification is read, with all its sections', () => {
  const counts = new Map<string, number>()
  for (const spec of SPECS) {
    for (const { section } of parseRows(readFileSync(join(ROOT, spec.path), 'utf8'), spec))
      counts.set(section, (counts.get(section) ?? 0) + 1)
  }
  const known = { '8.1': 8, '8.3': 5, '8.4': 10, '10': 119, 'M1.2': 22, M5: 14, 'M8.2': 15, M13: 13 }
  expect(Object.fromEntries(counts)).toMatchObject(known)
})

describe('ids in names of tests', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['1.3#1: a',                        ['1.3#1']],
    ['1.3 keys > 1.3#1 12#7: a',        ['1.3#1', '12#7']],
    ['1.3#9-11, A.1#2: a',              ['1.3#9', '1.3#10', '1.3#11', 'A.1#2']],
    ['M1.3#2, M5#1-2: a',               ['M1.3#2', 'M5#1', 'M5#2']],
    ['1.3: no id, x.1.3#4, 21.3.1#2, #5', []],
  ] as const
  for (const [name, ids] of cases)
    test(name.replaceAll('#', '№'), () => expect([...findIds([name])]).toEqual(ids))
})

test('a row without a test is reported with its line, and so is an id without a row', () => {
  const rows = parseRows(SPEC)
  const ids = new Set(['1.3#1', '1.3#3', '1.3#4', 'A.1#1', '1.4#1']) // 1.4 has no table
  expect(checkRows(rows, ids, ['1.3', 'A'])).toEqual([
    'docs/spec/decision-service.md:9: 1.3#2 has no test: | two | |',
    'docs/spec: 1.3#4 is in the name of a test, but there is no such row',
  ])
  expect(checkRows(rows, new Set(['1.3#1', '1.3#2', '1.3#3', 'A.1#1']))).toEqual([
    expect.stringContaining('1.31#1 has no test'),
  ])
  expect(checkRows(rows, new Set(rows.map(({ id }) => id)), ['1', 'A'])).toEqual([])
})

describe('what is not built', () => {
  const list = parseNotBuilt(`# Title
| What | Rows | Settings | Why |
|---|---|---|---|
| Pages | 1.3#2-3 1.31#1 | | later |
| Pictures | A.1#1 | SHOTS_ENABLED | |
`)
  const rows = parseRows(SPEC)

  test('replaces a test', () => {
    expect(list).toMatchObject([
      { what: 'Pages', settings: [], why: 'later' },
      { what: 'Pictures', settings: ['SHOTS_ENABLED'], why: '' },
    ])
    expect(checkRows(rows, new Set(['1.3#1']), [], list)).toEqual([])
  })
  test('is an error if it has a test or is unknown', () => {
    const more = [...list, { what: 'x', ids: new Set(['1.4#9']), settings: [], why: 'y' }]
    expect(checkRows(rows, new Set(['1.3#1', '1.3#2']), [], more)).toEqual([
      'docs/not-built.md: 1.3#2 is listed, but the name of a test has it',
      'docs/not-built.md: 1.4#9 is listed, but there is no such row',
    ])
  })
  test('needs a reason, and README lists the same', () => {
    const readme = '- Else\n<!-- not built -->\n- Pages\n- Mail\n<!-- /not built -->\n'
    expect(checkList(list, readme)).toEqual([
      'docs/not-built.md: "Pictures" has no reason',
      'README.md: "Pictures" is not built, and the list lacks it',
      'README.md: "Mail" is in the list, but not in docs/not-built.md',
    ])
    expect(checkList(list, '# no list')).toContainEqual(expect.stringContaining('README.md: no <!--'))
  })
  test('in this repository contains exactly the settings that are not built yet', () => {
    const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
    const listed = parseNotBuilt(read('docs/not-built.md'))
    const ahead = [...settings, ...monitorRows]
      .filter(({ state }) => state === 'later' || state === 'refuse')
      .map(({ name }) => name as string)
    expect(listed.flatMap((entry) => entry.settings).sort()).toEqual(ahead.sort())
    expect(checkList(listed, read('README.md'))).toEqual([])
  })
})

describe('names of tests', () => {
  let project = ''
  beforeEach(() => {
    project = makeTemporaryFolder()
    mkdirSync(join(project, 'test'))
    symlinkSync(join(ROOT, 'node_modules'), join(project, 'node_modules'))
    writeFileSync(
      join(project, 'vitest.config.mjs'),
      "export default { test: { include: ['test/*.test.ts'] } }",
    )
  })

  test('include the values of tables, and leave out tests that would not run', async () => {
    const file = `import { describe, test } from 'vitest'
      for (const n of [1, 2]) describe('group', () => { test(\`1.3#\${n}: x\`, () => {}) })
      test.skip('1.3#3: y', () => {})
      test.todo('1.3#4: z')`
    writeFileSync(join(project, 'test/a.test.ts'), file)
    expect(await listTestNames(project)).toEqual(['group > 1.3#1: x', 'group > 1.3#2: x'])
  })

  test('a test file that does not load is an error of a few lines', async () => {
    writeFileSync(join(project, 'test/a.test.ts'), 'missing()')
    await expect(listTestNames(project)).rejects.toThrow(
      /vitest cannot list the tests:\n.*missing is not defined/,
    )
  })
})

test('the sections on rules and matching have a test for every row', async () => {
  const rows = parseRows(readFileSync(join(ROOT, 'docs/spec/decision-service.md'), 'utf8'))
  expect(rows.length).toBeGreaterThan(200)
  const names = await listTestNames(ROOT, ['test/engine/config', 'test/engine/match'])
  expect(checkRows(rows, findIds(names), ['1', '2', '11.5', 'A.1', 'A.2'])).toEqual([])
})
