/**
 * Names that say too little: definitions that end in `Of` (a function is a verb: `getX`, `toX`) or in `told`, and files
 * called words.ts or desk.ts.
 *
 * A name that is left counts against its folder's maximum, so that none is added; lower the maximum when one is renamed.
 * Definitions are found by their text: declarations, class and interface members, typed parameters.
 */
import { dirname } from 'node:path'

/** Names of others: JavaScript and JSON Schema. */
const ALLOWED = new Set(['indexOf', 'lastIndexOf', 'valueOf', 'instanceOf', 'anyOf', 'oneOf', 'allOf'])

const FILES = /(?:^|\/)(?:words|desk)\.ts$/

/** Folder of two levels → names that are left. Elsewhere none. */
// biome-ignore format: a table
const LEFT_MAX: Record<string, number> = {
  'monitor/api':         1,
  'test/engine':        42,
  'test/helpers':       12,
  'test/monitor':      118,
  'test/proto':          9,
  'test/system':         5,
  'test/transports':     7,
}

const NAME = '(\\w*Of|told|\\w*Told)\\b'
const DEFINITIONS = [
  new RegExp(`\\b(?:function\\*?|const|let|class|interface|type) ${NAME}`, 'g'),
  new RegExp(`^\\s+(?:(?:private|readonly|static|async|get|set) )*#?${NAME}\\??(?:\\(.*\\{$|: )`, 'gm'),
  new RegExp(`[(,] ?${NAME}\\??: `, 'g'),
]
const COMMENTS = /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*/gm

/**
 * `sources` maps a path from the root to its text. Beside complaints it returns how many names are `left` per folder, and
 * which maxima can be lowered.
 */
export function checkNames(
  sources: ReadonlyMap<string, string>,
  leftMax = LEFT_MAX,
): { complaints: string[]; left: string[]; lower: string[] } {
  const complaints: string[] = []
  const namesByFolder = new Map<string, string[]>(Object.keys(leftMax).map((folder) => [folder, []]))
  for (const [file, text] of sources) {
    if (FILES.test(file))
      complaints.push(`${file}: does not say what it contains. Rename it after its content.`)
    const folder = dirname(file).split('/').slice(0, 2).join('/')
    const names = namesByFolder.get(folder) ?? []
    names.push(...findNames(text).map((name) => `${name} (${file})`))
    namesByFolder.set(folder, names)
  }
  const left: string[] = []
  const lower: string[] = []
  for (const [folder, names] of namesByFolder) {
    const max = leftMax[folder] ?? 0
    if (names.length > 0) left.push(`${folder} ${names.length}`)
    if (names.length < max) lower.push(`${folder} to ${names.length}`)
    if (names.length <= max) continue
    const what = `has ${names.length} names ending in "Of" or with "told", at most ${max} may be left`
    complaints.push(`${folder}: ${what}. Use a verb or a noun: ${names.join(', ')}.`)
  }
  return { complaints, left, lower }
}

function findNames(text: string): string[] {
  const code = text.replace(COMMENTS, '')
  const names = DEFINITIONS.flatMap((pattern) => [...code.matchAll(pattern)].map(([, name]) => name))
  return names.filter((name) => !ALLOWED.has(name))
}
