/**
 * Names that say too little: definitions that end in `Of` (a function is a verb: `getX`, `toX`) or in `told`, and files
 * called words.ts or desk.ts.
 *
 * Such names do not say whether they compute, read or format, and a reader cannot search for them.
 *
 * Definitions are found by their text: declarations, class and interface members, typed parameters.
 */
/** Names of others: JavaScript and JSON Schema. */
const ALLOWED = new Set(['indexOf', 'lastIndexOf', 'valueOf', 'instanceOf', 'anyOf', 'oneOf', 'allOf'])

const FILES = /(?:^|\/)(?:words|desk)\.ts$/

const NAME = '(\\w*Of|told|\\w*Told)\\b'
const DEFINITIONS = [
  new RegExp(`\\b(?:function\\*?|const|let|class|interface|type) ${NAME}`, 'g'),
  new RegExp(`^\\s+(?:(?:private|readonly|static|async|get|set) )*#?${NAME}\\??(?:\\(.*\\{$|: )`, 'gm'),
  new RegExp(`[(,] ?${NAME}\\??: `, 'g'),
]
const COMMENTS = /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*/gm

/** `sources` maps a path from the root to its text. Returns a diagnostic per name and per file. */
export function checkNames(sources: ReadonlyMap<string, string>): string[] {
  const diagnostics: string[] = []
  for (const [file, text] of sources) {
    if (FILES.test(file))
      diagnostics.push(`${file}: does not say what it contains. Rename it after its content.`)
    for (const name of findNames(text)) {
      diagnostics.push(`${file}: ${name} ends in "Of" or with "told". Use a verb or a noun.`)
    }
  }
  return diagnostics
}

function findNames(text: string): string[] {
  const code = text.replace(COMMENTS, '')
  const names = DEFINITIONS.flatMap((pattern) => [...code.matchAll(pattern)].map(([, name]) => name))
  return names.filter((name) => !ALLOWED.has(name))
}
