/**
 * Does every row of the specification's tables have a test? Silent when all have; else the list, and exit code 1.
 *
 *     ### 1.3 Generic key validation        test('1.3#2 1.3#4-6: an unknown key', …)
 *     | Condition | Error |                          │      └─ a range
 *     |---|---|                                      └─ section 1.3, second row of all the tables it has
 *     | not a string | … |   1.3#1
 *     | unknown word | … |   1.3#2
 *
 *     $ node scripts/spec-rows.ts            all sections below      $ node scripts/spec-rows.ts 1 A.2    some of them
 *
 * The head of a table is no row. An id in a name says that this very row is asserted there; nothing can check that but a
 * reader. Names are collected by vitest, because those of tables exist only at run time; skipped tests are not among them.
 * Costs 1.3 s for 1,200 tests. Gives up: test files isolated from each other, which would cost 6 s.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { OperatorError } from '../engine/errors.ts'

const SPEC = 'docs/spec/decision-service.md'
const ROW_SHOWN_MAX = 90 // characters
const NAMES_BYTES_MAX = 64 * 1024 * 1024 // of vitest's answer
const STDERR_LINES_MAX = 6 // of what it complains about

/** What must have tests today: the sections of what is built. A section holds those below it. */
const SECTIONS = '1 2 3 4 5 6.1 6.2 6.3 6.4 6.5 6.6 7 8.2 8.6 9 11.3 11.4 11.5 12 A'.split(' ')
const EXCEPT = ['A.5']

const HEADING = /^#+ (?:Appendix )?(\d+(?:\.\d+)?|A(?:\.\d+)?)[. ]/
const TABLE_RULE = /^\|(?: *:?-+:? *\|)+ *$/ // between the head and the rows
const ID = /(?<![\w.])(\d+(?:\.\d+)?|A(?:\.\d+)?)#(\d+)(?:-(\d+))?/g

export interface Row {
  id: string
  section: string
  line: number
  text: string
}

/** All rows of all tables of a specification. */
export function rowsOf(markdown: string): Row[] {
  const rows: Row[] = []
  const counts = new Map<string, number>()
  let section = ''
  let isTable = false
  let isCode = false
  markdown.split('\n').forEach((text, index) => {
    if (text.startsWith('```')) isCode = !isCode
    if (isCode) return
    section = HEADING.exec(text)?.[1] ?? section
    if (!text.startsWith('|')) isTable = false
    else if (TABLE_RULE.test(text)) isTable = true
    else if (isTable) {
      const ordinal = (counts.get(section) ?? 0) + 1
      counts.set(section, ordinal)
      rows.push({ id: `${section}#${ordinal}`, section, line: index + 1, text })
    }
  })
  return rows
}

/** The ids in names of tests. */
export function idsIn(names: readonly string[]): Set<string> {
  const ids = new Set<string>()
  for (const name of names) {
    for (const [, section, first, last = first] of name.matchAll(ID)) {
      for (let ordinal = Number(first); ordinal <= Number(last); ordinal++) ids.add(`${section}#${ordinal}`)
    }
  }
  return ids
}

/** What is wrong, a line each: rows without a test, and ids without a row. `sections` are those that count. */
export function complaintsAbout(rows: Row[], ids: Set<string>, sections: string[], except: string[] = []) {
  const complaints: string[] = []
  for (const { id, section, line, text } of rows) {
    const isAsked = isBelow(section, sections) && !isBelow(section, except)
    if (!isAsked || ids.has(id)) continue
    const shown = text.length > ROW_SHOWN_MAX ? `${text.slice(0, ROW_SHOWN_MAX)}…` : text
    complaints.push(`${SPEC}:${line}: ${id} has no test: ${shown}`)
  }
  const known = new Set(rows.map(({ id }) => id))
  const withTables = new Set(rows.map(({ section }) => section)) // elsewhere an id may mean an item of a list
  for (const id of ids) {
    if (!known.has(id) && withTables.has(id.split('#')[0]))
      complaints.push(`${SPEC}: ${id} is in the name of a test, but there is no such row`)
  }
  return complaints
}

function isBelow(section: string, parents: string[]): boolean {
  return parents.some((parent) => section === parent || section.startsWith(`${parent}.`))
}

/** The full names of all tests that would run under `root`, or of some folders. Rejects when a file does not load. */
export async function testNames(root: string, folders: string[] = []): Promise<string[]> {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  // Without this the list is read from the sources, where a name is still `${written}`.
  const args = [vitest, 'list', '--json', '--no-static-parse', '--no-isolate', ...folders]
  const env: NodeJS.ProcessEnv = { ...process.env, NO_COLOR: '1' }
  for (const name of Object.keys(env)) if (name.startsWith('VITEST')) delete env[name] // when a test runs us
  const run = promisify(execFile)(process.execPath, args, { cwd: root, env, maxBuffer: NAMES_BYTES_MAX })
  const { stdout } = await run.catch((error: { stderr: string }) => {
    const told = error.stderr.split('\n').slice(0, STDERR_LINES_MAX).join('\n')
    throw new OperatorError({ code: 'TESTS_UNLISTED', what: `vitest cannot list the tests:\n${told}` })
  })
  return (JSON.parse(stdout) as { name: string }[]).map(({ name }) => name)
}

/** Prints what is to mend under `root`, of some sections or of all that count; returns the exit code. */
async function main(root: string, asked: string[]): Promise<number> {
  const rows = rowsOf(readFileSync(join(root, SPEC), 'utf8'))
  const ids = idsIn(await testNames(root))
  const complaints = complaintsAbout(rows, ids, asked.length > 0 ? asked : SECTIONS, EXCEPT)
  if (complaints.length === 0) return 0
  for (const complaint of complaints) console.log(complaint)
  console.log(
    `${complaints.length} to mend. A row's test carries its id in its name: test('1.3#12: …'), or several: ` +
      `'1.3#12 1.3#14-16: …'. Only where that very row is asserted.`,
  )
  return 1
}

if (import.meta.main) {
  try {
    process.exitCode = await main(fileURLToPath(new URL('..', import.meta.url)), process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    console.error(`spec-rows: ${error.message}`)
    process.exitCode = 1
  }
}
