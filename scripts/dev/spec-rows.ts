/**
 * Checks that every row of the specifications has a test. Prints those without one and then exits with 1.
 *
 *     ### 1.3 Generic key validation        test('1.3#2 1.3#4-6: an unknown key', …)
 *     | Condition | Error |                          │      └─ a range
 *     |---|---|                                      └─ section 1.3, second row of its tables
 *     | not a string | … |   1.3#1
 *     | unknown word | … |   1.3#2
 *
 *     $ node scripts/dev/spec-rows.ts            all sections            $ node scripts/dev/spec-rows.ts 1 A.2 M4    some of them
 *
 * Ids of docs/spec/monitor.md begin with M: M1.2#3. The heading of a table is not a row. In the sections that
 * `lists` names, list items are rows too, counted together with those of the tables in the order of the document.
 * docs/not-built.md lists what is deliberately not built, with the reason; README names the same things.
 *
 * An id in the name of a test means that the test asserts this row; only a reader can check that. vitest collects the
 * names, because those of tables exist only at run time, and leaves out skipped tests. It takes 6 s for 5,400 tests, without
 * isolation between test files, which would take several times as long.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ConfigurationError } from '../../engine/runtime/errors.ts'

/** A specification: its path, the prefix of its ids, and the sections in which list items are rows. */
export interface Spec {
  path: string
  prefix: string
  lists: readonly string[]
}

export const SPECS: readonly Spec[] = [
  { path: 'docs/spec/decision-service.md', prefix: '', lists: ['8.1', '8.3', '8.4'] },
  {
    path: 'docs/spec/monitor.md',
    prefix: 'M',
    lists: '1.4 3.1 3.2 3.6 4.2 4.3 5 6.4 6.5 7.1 8.3 9 13'.split(' '),
  },
]
const NOT_BUILT = 'docs/not-built.md'

const ROW_SHOWN_MAX = 90 // characters
const NAMES_BYTES_MAX = 64 * 1024 * 1024 // of vitest's output
const STDERR_LINES_MAX = 6 // of vitest's error

const HEADING = /^#+ (?:Appendix )?(\d+(?:\.\d+)?|A(?:\.\d+)?)[. ]/
const TABLE_RULE = /^\|(?: *:?-+:? *\|)+ *$/ // between the heading and the rows
const LIST_ITEM = /^(?:-|\d+\.) / // of the outermost level
const ID = /(?<![\w.])(M?\d+(?:\.\d+)?|A(?:\.\d+)?)#(\d+)(?:-(\d+))?/g
const BULLET = /^- (.+)$/gm
const README_LIST = /(?<=^<!-- not built -->\n).*?(?=^<!-- \/not built -->$)/ms

export interface Row {
  id: string
  section: string // with the prefix of its specification
  file: string
  line: number
  text: string
}

/** All rows of a specification. */
export function parseRows(markdown: string, { path, prefix, lists }: Spec = SPECS[0]): Row[] {
  const rows: Row[] = []
  const counts = new Map<string, number>()
  let number = ''
  let isTable = false
  let isCode = false
  markdown.split('\n').forEach((text, index) => {
    if (text.startsWith('```')) isCode = !isCode
    if (isCode) return
    number = HEADING.exec(text)?.[1] ?? number
    const isRow = isTable && text.startsWith('|')
    isTable = isRow || TABLE_RULE.test(text)
    if (!isRow && !(lists.includes(number) && LIST_ITEM.test(text))) return
    const section = prefix + number
    const ordinal = (counts.get(section) ?? 0) + 1
    counts.set(section, ordinal)
    rows.push({ id: `${section}#${ordinal}`, section, file: path, line: index + 1, text })
  })
  return rows
}

/** The ids in names of tests. */
export function findIds(names: readonly string[]): Set<string> {
  const ids = new Set<string>()
  for (const name of names) {
    for (const [, section, first, last = first] of name.matchAll(ID)) {
      for (let ordinal = Number(first); ordinal <= Number(last); ordinal++) ids.add(`${section}#${ordinal}`)
    }
  }
  return ids
}

/** An entry of docs/not-built.md. */
export interface NotBuilt {
  what: string
  ids: Set<string>
  settings: string[]
  why: string
}

/** The table of docs/not-built.md: | what | rows | settings | why | */
export function parseNotBuilt(markdown: string): NotBuilt[] {
  const lines = markdown.split('\n')
  const ruleIndex = lines.findIndex((line) => TABLE_RULE.test(line))
  const entries: NotBuilt[] = []
  for (const line of lines.slice(ruleIndex + 1)) {
    if (!line.startsWith('|')) break
    const [what, rows, settings, why] = line
      .split('|')
      .slice(1)
      .map((cell) => cell.trim())
    entries.push({ what, ids: findIds([rows]), settings: settings.match(/\w+/g) ?? [], why })
  }
  return entries
}

/** One line per error: rows without a test or a reason, and ids without a row. Without `sections`, all are checked. */
export function checkRows(rows: Row[], ids: Set<string>, sections: string[] = [], notBuilt: NotBuilt[] = []) {
  const diagnostics: string[] = []
  const listed = new Set(notBuilt.flatMap((entry) => [...entry.ids]))
  for (const { id, section, file, line, text } of rows) {
    if (sections.length > 0 && !isBelow(section, sections)) continue
    if (ids.has(id)) {
      if (listed.has(id)) diagnostics.push(`${NOT_BUILT}: ${id} is listed, but the name of a test has it`)
    } else if (!listed.has(id)) {
      const shown = text.length > ROW_SHOWN_MAX ? `${text.slice(0, ROW_SHOWN_MAX)}…` : text
      diagnostics.push(`${file}:${line}: ${id} has no test: ${shown}`)
    }
  }
  const known = new Set(rows.map(({ id }) => id))
  const withRows = new Set(rows.map(({ section }) => section)) // elsewhere an id may mean an item of a list
  for (const id of ids) {
    if (!known.has(id) && withRows.has(id.split('#')[0]))
      diagnostics.push(`docs/spec: ${id} is in the name of a test, but there is no such row`)
  }
  for (const id of listed) {
    if (!known.has(id)) diagnostics.push(`${NOT_BUILT}: ${id} is listed, but there is no such row`)
  }
  return diagnostics
}

/** One line per error: entries without a reason, and differences from README. */
export function checkList(notBuilt: NotBuilt[], readme: string): string[] {
  const diagnostics = notBuilt
    .filter(({ why }) => !why)
    .map(({ what }) => `${NOT_BUILT}: "${what}" has no reason`)
  const list = README_LIST.exec(readme)?.[0]
  if (list === undefined) return [...diagnostics, 'README.md: no <!-- not built --> list <!-- /not built -->']
  const named = [...list.matchAll(BULLET)].map(([, what]) => what)
  for (const { what } of notBuilt)
    if (!named.includes(what)) diagnostics.push(`README.md: "${what}" is not built, and the list lacks it`)
  for (const what of named)
    if (!notBuilt.some((entry) => entry.what === what))
      diagnostics.push(`README.md: "${what}" is in the list, but not in ${NOT_BUILT}`)
  return diagnostics
}

function isBelow(section: string, parents: string[]): boolean {
  return parents.some((parent) => section === parent || section.startsWith(`${parent}.`))
}

/** The full names of all tests that would run under `root`, or of some folders. Rejects when a file does not load. */
export async function listTestNames(root: string, folders: string[] = []): Promise<string[]> {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  // Without this the list is read from the sources, where a name is still `${written}`.
  const args = [vitest, 'list', '--json', '--no-static-parse', '--no-isolate', ...folders]
  const env: NodeJS.ProcessEnv = { ...process.env, NO_COLOR: '1' }
  for (const name of Object.keys(env)) if (name.startsWith('VITEST')) delete env[name] // set when a test runs this
  const run = promisify(execFile)(process.execPath, args, { cwd: root, env, maxBuffer: NAMES_BYTES_MAX })
  const { stdout } = await run.catch((error: { stderr: string }) => {
    const stderrHead = error.stderr.split('\n').slice(0, STDERR_LINES_MAX).join('\n')
    throw new ConfigurationError({
      code: 'TESTS_UNLISTED',
      what: `vitest cannot list the tests:\n${stderrHead}`,
    })
  })
  return (JSON.parse(stdout) as { name: string }[]).map(({ name }) => name)
}

/** Prints the errors under `root`, of some sections or of all; returns the exit code. */
async function main(root: string, sections: string[]): Promise<number> {
  const read = (path: string) => readFileSync(join(root, path), 'utf8')
  const rows = SPECS.flatMap((spec) => parseRows(read(spec.path), spec))
  const notBuilt = parseNotBuilt(read(NOT_BUILT))
  const ids = findIds(await listTestNames(root))
  const diagnostics = checkRows(rows, ids, sections, notBuilt)
  diagnostics.push(...checkList(notBuilt, read('README.md')))
  if (diagnostics.length === 0) return 0
  for (const diagnostic of diagnostics) console.log(diagnostic)
  console.log(
    `${diagnostics.length} errors. The test of a row has its id in its name: test('1.3#12: …'), or several: ` +
      `'1.3#12 1.3#14-16: …'. Use an id only where that row is asserted. List what is not built in ${NOT_BUILT}.`,
  )
  return 1
}

if (import.meta.main) {
  try {
    process.exitCode = await main(fileURLToPath(new URL('../..', import.meta.url)), process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    console.error(`spec-rows: ${error.message}`)
    process.exitCode = 1
  }
}
